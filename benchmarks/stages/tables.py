"""Conversion and reading of tabular records in bytes/s, beside SIM's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.drawn import criteo, outbrain, write_drawn
from benchmarks.machine import claim_memory
from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from benchmarks.samples import write_samples
from components.feature_spec import load_feature_spec
from components.records import Records, prefetched
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
from components.train.loop.transfer import tensors

ROWS, BATCH = 200_000, 4096


def measure(folder: Path, plan: Plan, report: Report) -> None:
    sources = {
        "SIM": write_samples(folder / "sim", ROWS, 1000),
        "Criteo": write_drawn(folder / "criteo", criteo(), ROWS, 1000),
        "Outbrain": write_drawn(folder / "outbrain", outbrain(), ROWS, 1000),
    }
    records = {name: folder / f"{name}-records" for name in sources}
    for name, source in sources.items():
        run(TfrecordParameters(), parquet=source, tfrecord=records[name])
    megabytes = {
        name: sum(path.stat().st_size for path in load_feature_spec(records_folder).files("train")) / 1e6
        for name, records_folder in records.items()
    }

    def convert(name: str) -> float:
        claim_memory(folder)
        parameters, output = TfrecordParameters(), folder / "converted"
        return megabytes[name] / seconds(lambda: run(parameters, parquet=sources[name], tfrecord=output))

    def read(name: str) -> float:
        batches = Records(load_feature_spec(records[name]), "train").batches(BATCH, seed=1)
        return megabytes[name] / seconds(lambda: [tensors(batch) for batch in prefetched(batches, 4)])

    for stage, work in (("tfrecord", convert), ("input", read)):
        jobs: dict[str, Callable[[], float]] = {name: partial(work, name) for name in sources}
        alternated(1, **jobs)
        speeds = alternated(plan.runs, **jobs)
        for name in ("Criteo", "Outbrain"):
            note = f"{1e6 * megabytes[name] / ROWS:.0f} bytes a sample; the reference is SIM's"
            report.add(Figure(stage, f"{name} records", "MB/s", speeds[name], speeds["SIM"], target_ratio=1, note=note))
