"""Displays to parquet with NVTabular: speed, and memory against size."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from benchmarks.measuring import Figure, Plan, Report
from benchmarks.process import run_measured
from components.download.step import run as download
from components.steps.catalog import STEPS

# Displays have 5.5 ads on average. All sizes share the smallest one's ads and pages, so memory must not grow with rows.
DISPLAYS_OF_A_MILLION = 182_000
ADS, PAGES = 20_000, 100_000
MILLIONS, FULL_MILLIONS = (1, 4), (1, 4, 20)


def measure(folder: Path, plan: Plan, report: Report) -> None:
    peaks = {}
    for millions in FULL_MILLIONS if plan.full else MILLIONS:
        parameters = STEPS["download"].of(
            dataset="outbrain",
            synthetic_displays=millions * DISPLAYS_OF_A_MILLION,
            synthetic_ads=ADS,
            synthetic_documents=PAGES,
        )
        raw = folder / f"raw_{millions}"
        rows = download(parameters, raw=raw)["clicks"]
        runs = plan.runs if millions == 1 else 1
        options = (f"--raw={raw}", f"--parquet={folder / 'parquet'}", "--dataset=outbrain")
        measured = [run_measured([sys.executable, "-m", "components.preprocess", *options]) for _ in range(runs)]
        shutil.rmtree(raw)
        report.add(
            Figure("outbrain", f"{millions} M clicks", "clicks/s", [rows / s for s, _ in measured], target=100_000)
        )
        peaks[millions] = max(peak for _, peak in measured)
        report.add(
            Figure("outbrain", f"peak memory of all its processes, {millions} M clicks", "MB", [peaks[millions]],
                   reference=[peaks[1]] if millions > 1 else (), target=6000, lower_is_better=True)
        )  # fmt: skip
