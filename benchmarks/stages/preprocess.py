"""Raw reviews to parquet with NVTabular: speed, and memory against size."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from benchmarks.measuring import Figure, Plan, Report
from benchmarks.reviews import write_reviews

MILLIONS, FULL_MILLIONS = (1,), (1, 2, 5, 10, 20)
SAME_POPULATION = 5  # million reviews of the users and items of one million


def measure(folder: Path, plan: Plan, report: Report) -> None:
    peaks = {}
    for millions in FULL_MILLIONS if plan.full else MILLIONS:
        reviews = millions * 1_000_000
        raw = write_reviews(folder / f"raw_{millions}", reviews)
        runs = plan.runs if millions == 1 else 1
        measured = [_run(raw, folder / f"parquet_{millions}") for _ in range(runs)]
        report.add(
            Figure(
                "preprocess", f"{millions} M reviews", "reviews/s", [reviews / s for s, _ in measured], target=70_000
            )
        )
        peaks[millions] = max(peak for _, peak in measured)
        report.add(
            Figure("preprocess", f"peak memory of all its processes, {millions} M reviews", "MB", [peaks[millions]],
                   reference=[peaks[1]] if millions > 1 else (), target=6000, lower_is_better=True)
        )  # fmt: skip
    if plan.full:
        raw = write_reviews(folder / "raw_same", SAME_POPULATION * 1_000_000, population=1_000_000)
        _, peak = _run(raw, folder / "parquet_same")
        name = f"peak memory, {SAME_POPULATION} M reviews of the users and items of 1 M"
        report.add(Figure("preprocess", name, "MB", [peak], reference=[peaks[1]], target=6000, lower_is_better=True))


def _run(raw: Path, parquet: Path) -> tuple[float, float]:
    """Seconds of the step as a command, and the largest sum of its processes' memory in MB."""
    command = [sys.executable, "-m", "components.preprocess", f"--raw={raw}", f"--parquet={parquet}"]
    started = time.perf_counter()
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    watch = _MemoryWatch(process.pid)
    with watch:
        status = process.wait()
    seconds = time.perf_counter() - started
    if status:
        raise RuntimeError(f"preprocess ended with status {status}")
    return seconds, watch.peak / 1e6


class _MemoryWatch:
    """Adds up, a few times a second, what a process and its descendants hold: their proportional share (PSS)."""

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
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += [int(child) for child in children.read_text().split()]
            except OSError:
                continue
    return found


def _proportional_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
