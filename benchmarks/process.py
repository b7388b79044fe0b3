"""Duration of a command, and peak memory of its process tree."""

from __future__ import annotations

import resource
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path


def run_measured(command: Sequence[str]) -> tuple[float, float]:
    """Runs a command.

    Returns:
        Seconds, and the peak of its processes' total memory in MB.

    Raises:
        RuntimeError: the command failed.
    """
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    watch = _MemoryWatch(process.pid)
    with watch:
        status = process.wait()
    seconds = time.perf_counter() - started
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with status {status}")
    return seconds, watch.peak / 1e6


def processor_seconds() -> float:
    """What all commands so far took of the processors, which other work on the machine does not change."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class _MemoryWatch:
    """Samples, a few times per second, the total proportional set size (PSS) of a process tree."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _MemoryWatch:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.25):
            self.peak = max(self.peak, sum(_proportional_bytes(pid) for pid in _descendants(self._pid)))


def _descendants(pid: int) -> list[int]:
    pids = [pid]
    for parent in pids:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                pids += [int(child) for child in children.read_text().split()]
            except OSError:
                continue
    return pids


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
