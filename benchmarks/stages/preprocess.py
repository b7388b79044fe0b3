"""Raw reviews to parquet with NVTabular: speed, and memory against size."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.measuring import Figure, Plan, Report
from benchmarks.process import run_measured
from benchmarks.reviews import write_reviews

MILLIONS, FULL_MILLIONS = (1,), (1, 2, 5, 10, 20)
SAME_POPULATION = 5  # million reviews, by the users and items of one million


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
    """Seconds and peak memory (MB) of the step's command."""
    return run_measured([sys.executable, "-m", "components.preprocess", f"--raw={raw}", f"--parquet={parquet}"])
