"""Writes samples as parquet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.histories.layout import ROW_GROUP, SAMPLE, sample_writer
from components.workflows.nvtabular_quiet import Workflow


def write_samples(histories: Path, workflow: Workflow, output: Path) -> int:
    """Writes the samples of one partition, a few thousand users at a time.

    Args:
        histories: parquet file that ``encoding`` wrote.
        workflow: converts them to samples.
        output: the file to write; not written if there are no samples.

    Returns:
        Samples written.
    """
    groups = _row_groups(_samples(users, workflow) for users in _chunks(pq.read_table(histories)))
    first = next(groups, None)
    if first is None:
        return 0
    rows = 0
    with sample_writer(output) as writer:
        for group in chain([first], groups):
            writer.write_table(group)
            rows += group.num_rows
    return rows


def _row_groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Concatenates small tables, such as those of test samples, into row groups; large ones pass unchanged."""
    held, rows = [], 0
    for table in tables:
        held.append(table)
        rows += table.num_rows
        if rows >= ROW_GROUP // 2:
            yield pa.concat_tables(held)
            held, rows = [], 0
    if rows:
        yield pa.concat_tables(held)


def _chunks(histories: pa.Table) -> Iterator[pa.Table]:
    """Slices of whole users, each about a row group of training samples."""
    ends = np.cumsum(pc.list_value_length(histories["item_list"]).to_numpy())
    chunk = ends // (ROW_GROUP // 2)
    starts = np.flatnonzero(np.r_[True, chunk[1:] != chunk[:-1]])
    for start, stop in zip(starts, [*starts[1:], len(ends)], strict=True):
        yield histories.slice(start, stop - start)


def _samples(users: pa.Table, workflow: Workflow) -> pa.Table:
    samples = pa.Table.from_pandas(workflow.transform(users.to_pandas()), preserve_index=False)
    return samples.select(SAMPLE.names).cast(SAMPLE)
