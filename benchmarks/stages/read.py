"""Record files to tensors, against tf.data's batch and parse_example on the plain records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from benchmarks.measuring import Figure, Plan, Report, alternated, seconds
from benchmarks.reference.load import dataset
from benchmarks.samples import write_samples
from components.feature_spec import load_feature_spec
from components.records import Records, prefetched
from components.steps.catalog import TfrecordParameters
from components.tfrecord.step import run
from components.train.loop.transfer import tensors

ROWS, REFERENCE_ROWS, BATCH, PREBATCH = 200_000, 50_000, 4096, 4096


def measure(folder: Path, plan: Plan, report: Report) -> None:
    parquet = write_samples(folder / "parquet", ROWS, 1000)
    few = write_samples(folder / "few", REFERENCE_ROWS, 1000)
    specs = {}
    for name, source, prebatch in (("plain", parquet, 0), ("prebatched", parquet, PREBATCH), ("reference", few, 0)):
        parameters = TfrecordParameters(prebatch_train_size=prebatch, prebatch_test_size=prebatch)
        run(parameters, parquet=source, tfrecord=folder / name)
        specs[name] = load_feature_spec(folder / name)

    def ours(name: str) -> Callable[[], float]:
        records = Records(specs[name], "train")

        def read() -> None:
            rows = 0
            for batch in prefetched(records.batches(BATCH, seed=1), 4):
                rows += int(tensors(batch)["label"].shape[0])
            assert rows == ROWS

        return lambda: ROWS / seconds(read)

    def reference() -> float:
        def read() -> None:
            batches = dataset(specs["reference"], "train", BATCH)
            assert sum(int(batch["label"].shape[0]) for batch in batches) == REFERENCE_ROWS

        return REFERENCE_ROWS / seconds(read)

    jobs = {"plain": ours("plain"), "prebatched": ours("prebatched"), "reference": reference}
    alternated(1, **jobs)
    values = alternated(2 * plan.runs, **jobs)  # a second each: doubled against short stalls of the host
    for name, ratio in (("plain", 2), ("prebatched", 15)):
        report.add(
            Figure(
                "input", f"{name} records, shuffled, batch {BATCH}", "samples/s", values[name], values["reference"],
                target_ratio=ratio,
            )
        )  # fmt: skip
