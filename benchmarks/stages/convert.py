"""Parquet to TFRecord, against one tf.train.Example per row."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.machine import claim_memory
from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from benchmarks.reference.convert import convert as reference_convert
from benchmarks.samples import write_samples
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run

ROWS, REFERENCE_ROWS, FULL_ROWS = 400_000, 5_000, 2_000_000
PREBATCH = 4096
_PEAK = """
import sys
from pathlib import Path
from benchmarks.measuring import peak_megabytes
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
run(TfrecordParameters(), parquet=Path(sys.argv[1]), tfrecord=Path(sys.argv[2]))
print(peak_megabytes())
"""


def measure(folder: Path, plan: Plan, report: Report) -> None:
    parquet = write_samples(folder / "parquet", ROWS, 1000)
    few = write_samples(folder / "few", REFERENCE_ROWS, 100)

    def ours(prebatch: int) -> float:
        claim_memory(folder)
        parameters = TfrecordParameters(prebatch_train_size=prebatch, prebatch_test_size=prebatch)
        return ROWS / seconds(lambda: run(parameters, parquet=parquet, tfrecord=folder / f"tfrecord_{prebatch}"))

    def reference() -> float:
        claim_memory(folder)
        files = sorted((few / "train").glob("*.parquet"))
        return REFERENCE_ROWS / seconds(lambda: reference_convert(files, folder / "reference.tfrecord"))

    run(TfrecordParameters(), parquet=few, tfrecord=folder / "warm")  # compiles, and reads the code
    jobs = {"plain": lambda: ours(0), "prebatched": lambda: ours(PREBATCH), "reference": reference}
    # One run in four still waits for the host's memory and takes up to twice as long.
    values = alternated(2 * plan.runs, **jobs)
    for name in ("plain", "prebatched"):
        report.add(
            Figure("tfrecord", f"{name}, {ROWS:,} rows", "rows/s", values[name], values["reference"], 150_000, 20)
        )
    peaks = [(ROWS, parquet)]
    if plan.full:
        peaks.append((FULL_ROWS, write_samples(folder / "many", FULL_ROWS, 1000)))
    for rows, source in peaks:
        command = [sys.executable, "-c", _PEAK, str(source), str(folder / "peak")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        peak = float(done.stdout.split()[-1])
        report.add(Figure("tfrecord", f"peak memory, {rows:,} rows", "MB", [peak], target=1000, lower_is_better=True))
    shutil.rmtree(folder / "peak")
