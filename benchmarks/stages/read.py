"""Record files to tensors, against tf.data's batch and parse_example on the plain records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from benchmarks.reference.load import dataset
from benchmarks.samples import write_samples
from components.feature_spec import load_feature_spec
from components.records import Records, prefetched
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run

ROWS, BATCH, PREBATCH = 200_000, 4096, 4096


def measure(folder: Path, plan: Plan, report: Report) -> None:
    parquet = write_samples(folder / "parquet", ROWS, 1000)
    specs = {}
    for name, prebatch in (("plain", 0), ("prebatched", PREBATCH)):
        parameters = TfrecordParameters(prebatch_train_size=prebatch, prebatch_test_size=prebatch)
        run(parameters, parquet=parquet, tfrecord=folder / name)
        specs[name] = load_feature_spec(folder / name)

    def ours(name: str) -> Callable[[], float]:
        records = Records(specs[name], "train")

        def read() -> None:
            rows = 0
            for batch in prefetched(records.batches(BATCH, seed=1), 4):
                tensors = {feature: tf.constant(values) for feature, values in batch.items()}
                rows += int(tensors["label"].shape[0])
            assert rows == ROWS

        return lambda: ROWS / seconds(read)

    def reference() -> float:
        def read() -> None:
            assert sum(int(batch["label"].shape[0]) for batch in dataset(specs["plain"], "train", BATCH)) == ROWS

        return ROWS / seconds(read)

    jobs = {"plain": ours("plain"), "prebatched": ours("prebatched"), "reference": reference}
    alternated(1, **jobs)
    values = alternated(plan.runs, **jobs)
    for name, ratio in (("plain", 2), ("prebatched", 15)):
        report.add(
            Figure(
                "input", f"{name} records, shuffled, batch {BATCH}", "samples/s", values[name], values["reference"],
                target_ratio=ratio,
            )
        )  # fmt: skip
