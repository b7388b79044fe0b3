"""Free memory, and a rank's share of it for decoded records."""

from __future__ import annotations

from pathlib import Path

from components.errors import KfrecError

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def cache_bytes(local_size: int) -> int:
    """A quarter of the free memory, divided among the ranks of this machine."""
    return available_bytes() // 4 // local_size


def require_memory(model: str, needed: int) -> None:
    """Refuses a model that this machine cannot hold.

    Args:
        model: its title.
        needed: bytes for all ranks of this machine.

    Raises:
        KfrecError: ``needed`` exceeds the free memory.
    """
    free = available_bytes()
    if free and needed > free:
        raise KfrecError(
            f"the embedding tables of {model} need {needed / 1e9:,.1f} GB to train, and {free / 1e9:,.1f} GB are free; "
            "lower embedding_dim, correct the cardinalities, or use a larger machine"
        )


def available_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int:
    """Free bytes of the machine or of this container, whichever is less; 0 if the kernel reports neither."""
    free = []
    if meminfo.is_file():
        free += [int(line.split()[1]) * 1024 for line in meminfo.read_text().splitlines() if "MemAvailable" in line]
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if limit.is_file() and used.is_file() and limit.read_text().strip() != "max":
        free.append(max(0, int(limit.read_text()) - int(used.read_text())))
    return min(free, default=0)
