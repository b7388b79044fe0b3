"""What a worker has of its machine: cores, threads, its GPU and memory; set up before the first operation."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from components.errors import KfrecError

if TYPE_CHECKING:
    from components.steps.catalog import WorkerParameters
    from components.train.loop.ranks import Ranks

SYSFS = Path("/sys/devices/system/cpu")
PCI = Path("/sys/bus/pci/devices")
GPUS = Path("/proc/driver/nvidia/gpus")
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def quiet_tensorflow() -> None:
    """Silences TensorFlow's start-up notices; call it before importing TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")


def configure(parameters: WorkerParameters, ranks: Ranks) -> None:
    """Binds this rank to its cores and its GPU, and sets threads."""
    import tensorflow as tf

    bind(parameters.affinity, ranks.local_rank, ranks.local_size)
    tf.config.threading.set_inter_op_parallelism_threads(parameters.inter_op_parallelism)
    tf.config.threading.set_intra_op_parallelism_threads(parameters.intra_op_parallelism)
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        mine = gpus[ranks.local_rank % len(gpus)]
        tf.config.set_visible_devices(mine, "GPU")
        tf.config.experimental.set_memory_growth(mine, True)


def drawn_seed(seed: int) -> int:
    """The seed itself, or a random one for -1."""
    return secrets.randbelow(1 << 31) if seed < 0 else seed


def cache_bytes(local_size: int) -> int:
    """A quarter of the free memory, divided among the ranks of this machine."""
    return available_bytes() // 4 // local_size


def require_memory(model: str, needed: int) -> None:
    """Refuses a model that this machine cannot hold.

    Args:
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


def available_bytes() -> int:
    """Free bytes of the machine or of this container, whichever is less; 0 if the kernel reports neither."""
    free = []
    if _MEMINFO.is_file():
        free += [int(line.split()[1]) * 1024 for line in _MEMINFO.read_text().splitlines() if "MemAvailable" in line]
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if limit.is_file() and used.is_file() and limit.read_text().strip() != "max":
        free.append(max(0, int(limit.read_text()) - int(used.read_text())))
    return min(free, default=0)


@dataclass(frozen=True)
class Core:
    """One physical core.

    Attributes:
        threads: its logical CPUs, lowest first.
    """

    socket: int
    threads: tuple[int, ...]


def plan(affinity: str, cores: Sequence[Core], local_rank: int, local_size: int) -> frozenset[int] | None:
    """The logical CPUs of one rank, or None for no binding.

    Sockets are assigned to the local ranks in order; ranks that share a socket share or divide its cores:

        socket                     every core of the rank's socket
        single                     the first core of the rank's socket
        single_unique              one core, distinct for each rank
        socket_unique_interleaved  every n-th core of the socket, for n ranks there
        socket_unique_continuous   a contiguous n-th of the socket's cores
        disabled                   no binding

    With fewer ranks than sockets a rank gets several sockets; with more ranks than cores some share a core.
    """
    if affinity == "disabled" or not cores:
        return None
    sockets = sorted({core.socket for core in cores})
    first = local_rank * len(sockets) // local_size
    last = max(first + 1, (local_rank + 1) * len(sockets) // local_size)
    mine = [core for core in cores if core.socket in sockets[first:last]]
    sharing = [rank for rank in range(local_size) if rank * len(sockets) // local_size == first]
    index, ranks = sharing.index(local_rank), len(sharing)
    chosen = {
        "socket": mine,
        "single": mine[:1],
        "single_unique": [mine[index % len(mine)]],
        "socket_unique_interleaved": mine[index::ranks],
        "socket_unique_continuous": mine[index * len(mine) // ranks : (index + 1) * len(mine) // ranks],
    }[affinity]
    return frozenset(thread for core in chosen or [mine[index % len(mine)]] for thread in core.threads)


def topology(allowed: Iterable[int], sysfs: Path = SYSFS) -> list[Core]:
    """The physical cores of the allowed logical CPUs, ordered by socket and number.

    A CPU without topology files counts as a separate core of socket 0.
    """
    usable = set(allowed)
    cores = set()
    for cpu in usable:
        described = sysfs / f"cpu{cpu}" / "topology"
        try:
            socket = int((described / "physical_package_id").read_text())
            threads = _cpu_list((described / "thread_siblings_list").read_text())
        except (OSError, ValueError):
            socket, threads = 0, {cpu}
        cores.add(Core(socket, tuple(sorted(threads & usable)) or (cpu,)))
    return sorted(cores, key=lambda core: (core.socket, core.threads))


def bind(affinity: str, local_rank: int, local_size: int) -> frozenset[int] | None:
    """Binds this process and its future threads; does nothing if the kernel refuses.

    Ranks with a GPU get cores of the GPU's NUMA node.

    Returns:
        The logical CPUs that the process is bound to, or None.
    """
    allowed = frozenset(os.sched_getaffinity(0))
    nodes = [near_gpu(rank, allowed) for rank in range(local_size)]
    neighbours = [rank for rank, node in enumerate(nodes) if node == nodes[local_rank]]
    cores = topology(nodes[local_rank])
    cpus = plan(affinity, cores, neighbours.index(local_rank), len(neighbours))
    if cpus is not None:
        try:
            os.sched_setaffinity(0, cpus)
        except OSError:
            return None
    return cpus


def near_gpu(local_rank: int, allowed: frozenset[int], gpus: Path = GPUS, pci: Path = PCI) -> frozenset[int]:
    """The allowed logical CPUs on the NUMA node of the rank's GPU; all of them if the kernel reports none."""
    buses = sorted(gpu.name.lower() for gpu in gpus.iterdir()) if gpus.is_dir() else []
    if not buses:
        return allowed
    try:
        near = _cpu_list((pci / buses[local_rank % len(buses)] / "local_cpulist").read_text())
    except (OSError, ValueError):
        return allowed
    return allowed & near or allowed


def _cpu_list(text: str) -> set[int]:
    """CPUs of a kernel list such as "0-3,8,10-11"."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus
