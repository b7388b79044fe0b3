"""The two passes over the partitions, and the fit between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from dask import delayed

from components.datasets.outbrain.displays import Joined, join_displays
from components.datasets.outbrain.division import Division
from components.datasets.outbrain.features import BUCKETS, GROUP, LABEL, LISTS, NUMBERS, samples_workflow
from components.datasets.outbrain.statistics import Fitted, Statistics, Summing, fit, write_fitted
from components.progress import progress
from components.workflows.key_runs import KeyRange
from components.workflows.nvtabular_quiet import Workflow
from components.workflows.workers import Workers, in_order


def join(
    workers: Workers, clicks: Sequence[KeyRange], events: Sequence[KeyRange], scratch: Path, division: Division
) -> tuple[list[Joined], Statistics]:
    """Joins every partition, and adds up the statistics of their training rows."""
    task = delayed(join_displays, pure=False)
    tasks = [
        task(rows, others, scratch / "documents", division, scratch / f"joined-{index}.arrow")
        for index, (rows, others) in enumerate(zip(clicks, events, strict=True))
    ]
    joined: list[Any] = [None] * len(tasks)
    sums = Summing()
    with progress("joining displays", len(tasks), "partitions") as bar:
        for number, part in workers.run(tasks):
            sums.add(part.statistics)
            joined[number] = replace(part, statistics=None)
            bar.advance(1)
    return joined, sums.total()


def fit_or_keep(
    total: Statistics, division: Division, earlier: Fitted | None, limit: float
) -> tuple[Fitted, dict[str, Any]]:
    """The statistics to encode with, and metadata about them.

    Args:
        limit: share of training samples with unknown ads above which they are refitted.
    """
    if earlier is None:
        return fit(total, division), {"vocabulary": "fitted", "out_of_vocabulary_rate": 0.0}
    rate = earlier.share_of_unknown_ads(total)
    keep = rate <= limit
    vocabulary = "kept" if keep else "refitted"
    print(f"{rate:.2%} of the training samples are of unknown ads (limit {limit:.2%}): statistics {vocabulary}")
    return earlier if keep else fit(total, division), {"vocabulary": vocabulary, "out_of_vocabulary_rate": rate}


def write(
    workers: Workers,
    joined: Sequence[Joined],
    fitted: Fitted,
    scratch: Path,
    output: Path,
    largest_buckets: int,
) -> None:
    """Writes the statistics, and train/part.N.parquet and test/part.N.parquet, N being the partition."""
    write_fitted(fitted, output)
    for split in ("train", "test"):
        (output / split).mkdir()
    workflow = samples_workflow(fitted, output, scratch / "documents", largest_buckets)
    task = delayed(write_samples, pure=False)
    tasks = [task(part, workflow, f"part.{index}.parquet", output) for index, part in enumerate(joined)]
    with progress("writing samples", sum(part.train + part.test for part in joined), "samples") as bar:
        in_order(workers, tasks, lambda number, _: bar.advance(joined[number].train + joined[number].test))


_ROW_GROUP = 1 << 16
_LIST = pa.list_(pa.field("element", pa.int32(), nullable=False))
SAMPLE = pa.schema(
    [
        pa.field(LABEL, pa.int8(), nullable=False),
        pa.field(GROUP, pa.int64(), nullable=False),
        *(pa.field(name, pa.int32(), nullable=False) for name in BUCKETS),
        *(pa.field(name, _LIST, nullable=False) for name in LISTS.values()),
        *(pa.field(name, pa.float32(), nullable=False) for name in NUMBERS),
    ]
)


def write_samples(joined: Joined, workflow: Workflow, part: str, output: Path) -> None:
    """Writes train/<part> and test/<part> of one partition, each unless it would be empty.

    Args:
        output: folder with the folders train and test.
    """
    clicks = pa.ipc.open_file(pa.memory_map(str(joined.path))).read_all()
    samples = pa.Table.from_pandas(workflow.transform(clicks.to_pandas()), preserve_index=False)
    table = samples.select(SAMPLE.names).combine_chunks().cast(SAMPLE)
    for split, rows in (("train", table.slice(0, joined.train)), ("test", table.slice(joined.train))):
        if rows.num_rows:
            options = dict(compression="lz4", use_dictionary=False, write_statistics=False)
            pq.write_table(rows, output / split / part, row_group_size=_ROW_GROUP, **options)
