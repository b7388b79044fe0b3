"""Criteo's day files to parquet: speed against pandas, polars and NVTabular, and memory against size."""

from __future__ import annotations

import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.measuring import Figure, Plan, Report, alternated
from benchmarks.process import run_measured
from benchmarks.reference.criteo import EXACT, REFERENCES
from components.artifacts import adopt
from components.datasets.criteo.columns import CATEGORICAL, NUMERICAL
from components.datasets.criteo.synthetic import write_synthetic
from components.steps.catalog import STEPS

DAYS, VALUES = 4, 1_000_000
MILLION = 1_000_000
SPEED, TARGET = 1, 150_000
# A worker holds one partition of one day's file, 500,000 impressions, at a time. A million impressions in four days are
# four half-full partitions. From two million on, partitions are full, and memory must not grow with rows.
MEMORY, FULL_MEMORY = (2, 4), (2, 4, 16)


def measure(folder: Path, plan: Plan, report: Report) -> None:
    raw = write_days(folder / "raw", SPEED * MILLION)
    peaks: dict[str, list[float]] = {name: [] for name in ("ours", *REFERENCES)}

    def run(name: str) -> float:
        shutil.rmtree(folder / name, ignore_errors=True)
        seconds, peak = run_measured(_command(name, raw, folder / name))
        peaks[name].append(peak)
        return SPEED * MILLION / seconds

    speeds = alternated(3 if plan.full else 2, **{name: partial(run, name) for name in peaks})
    for name in REFERENCES:
        if name in EXACT:
            _require_equal(folder / "ours", folder / name)
        report.add(
            Figure("criteo", f"{SPEED} M impressions, against {name}", "impressions/s", speeds["ours"], speeds[name],
                   target=TARGET, note=f"{name} held up to {max(peaks[name]):,.0f} MB, ours {max(peaks['ours']):,.0f}")
        )  # fmt: skip
    first = 0.0
    for millions in FULL_MEMORY if plan.full else MEMORY:
        raw = write_days(folder / f"raw_{millions}", millions * MILLION, values=10_000)
        _, peak = run_measured(_command("ours", raw, folder / f"ours_{millions}"))
        shutil.rmtree(raw)
        shutil.rmtree(folder / f"ours_{millions}")
        first = first or peak
        name = f"peak memory, {millions} M impressions of as many distinct values"
        report.add(Figure("criteo", name, "MB", [peak], [first], target_ratio=0.8, lower_is_better=True))


def write_days(folder: Path, impressions: int, values: int = VALUES) -> Path:
    """Synthetic days as a raw artifact."""
    folder.mkdir()
    write_synthetic(
        STEPS["download"].of(
            dataset="criteo", synthetic_impressions=impressions, synthetic_days=DAYS, synthetic_values=values
        ),
        folder,
    )
    adopt(folder)
    return folder


def _command(name: str, raw: Path, out: Path) -> list[str]:
    if name == "ours":
        return [sys.executable, "-m", "components.preprocess", "--dataset=criteo", f"--raw={raw}", f"--parquet={out}"]
    return [sys.executable, "-m", "benchmarks.reference.criteo", name, str(raw), str(out)]


def _require_equal(ours: Path, other: Path) -> None:
    """Requires equal test splits."""
    mine = pq.read_table(sorted((ours / "test").iterdir())).to_pandas()
    theirs = pq.read_table(other / "test.parquet").to_pandas()
    np.testing.assert_array_equal(mine[list(CATEGORICAL)], theirs[list(CATEGORICAL)])
    np.testing.assert_allclose(mine[list(NUMERICAL)], theirs[list(NUMERICAL)], rtol=1e-6)
