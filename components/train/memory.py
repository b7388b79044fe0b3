"""How much memory a rank may keep decoded records in."""

from __future__ import annotations

from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def cache_bytes(local_size: int) -> int:
    """A quarter of the memory that is free now, divided among the ranks of this machine."""
    return available_bytes() // 4 // local_size


def available_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int:
    """Free memory of the machine or of this container, whichever is less; 0 where the kernel does not say."""
    free = []
    if meminfo.is_file():
        free += [int(line.split()[1]) * 1024 for line in meminfo.read_text().splitlines() if "MemAvailable" in line]
    limit, used = cgroup / "memory.max", cgroup / "memory.current"
    if limit.is_file() and used.is_file() and limit.read_text().strip() != "max":
        free.append(max(0, int(limit.read_text()) - int(used.read_text())))
    return min(free, default=0)
