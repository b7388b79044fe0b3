"""The machine that runs the benchmark."""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np


def described() -> dict[str, Any]:
    """Processor, cores, memory and system."""
    return {
        "processor": _field(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def matmul_gflops(size: int = 2048, runs: int = 3) -> float:
    """GFLOP/s of a large float32 matrix product with TensorFlow on all cores, the best of ``runs``."""
    import tensorflow as tf

    with tf.device("CPU:0"):
        a = tf.constant(np.random.default_rng(0).random((size, size), np.float32))
        tf.matmul(a, a).numpy()
        best = min(_once(lambda: tf.matmul(a, a).numpy()) for _ in range(runs))
    return 2 * size**3 / best / 1e9


def claim_memory(folder: Path, size: int = 1 << 30) -> None:
    """Makes the system claim ``size`` bytes of free memory, by writing and deleting a file.

    A virtual machine may return idle free memory to its host; reclaiming a page takes ten times as long as writing it.
    Without this, the time of a step that writes files would depend on when the machine was last busy.
    """
    file = folder / "claimed"
    block = bytes(1 << 20)
    with file.open("wb") as out:
        for _ in range(size >> 20):
            out.write(block)
    file.unlink()


def _once(job: Any) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def _field(path: Path, name: str) -> str:
    if not path.is_file():
        return ""
    lines = (line.partition(":") for line in path.read_text().splitlines())
    return next((value.strip() for key, _, value in lines if key.strip() == name), "")
