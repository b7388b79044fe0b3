"""Samples to parquet, in the published layout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.preprocess.columns import data_frame
from components.preprocess.nvtabular_quiet import Workflow, dispatch

ROW_GROUP = 32_768
_LIST = pa.list_(pa.field("element", pa.int32(), nullable=False))
SAMPLE = pa.schema(
    [
        pa.field("label", pa.int8(), nullable=False),
        *(pa.field(name, pa.int32(), nullable=False) for name in ("uid", "item", "cat")),
        *(pa.field(f"{name}_sequence", _LIST, nullable=False) for name in ("item", "cat", "neg_item", "neg_cat")),
    ]
)
# Windows that follow each other are alike but for one item: Zstandard sees that in plain numbers, not in codes.
_DICTIONARY = ["label", "uid", "cat"]


def write_samples(histories: Path, workflow: Workflow, output: Path) -> int:
    """Writes the samples of one partition, a few thousand users at a time.

    Args:
        histories: parquet file that ``encoding`` wrote.
        workflow: makes samples of it.
        output: the file to write; none is written where no sample results.

    Returns:
        Samples written.
    """
    writer, samples = None, 0
    try:
        for table in _row_groups(histories, workflow):
            writer = writer or pq.ParquetWriter(
                output,
                SAMPLE,
                compression="zstd",
                compression_level=1,
                use_dictionary=_DICTIONARY,
                write_statistics=False,
            )
            writer.write_table(table, row_group_size=2 * ROW_GROUP)
            samples += table.num_rows
    finally:
        if writer is not None:
            writer.close()
    return samples


def _row_groups(histories: Path, workflow: Workflow) -> Iterator[pa.Table]:
    pending: list[pa.Table] = []
    for users in _chunks(pq.read_table(histories)):
        pending.append(_samples(users, workflow))
        if sum(table.num_rows for table in pending) >= ROW_GROUP:
            yield pa.concat_tables(pending)
            pending = []
    if any(table.num_rows for table in pending):
        yield pa.concat_tables(pending)


def _chunks(histories: pa.Table) -> Iterator[pa.Table]:
    """Slices of whole users with about as many reviews as make a row group of training samples."""
    ends = np.cumsum(pc.list_value_length(histories["item_list"]).to_numpy())
    chunk = ends // (ROW_GROUP // 2)
    starts = np.flatnonzero(np.r_[True, chunk[1:] != chunk[:-1]])
    for start, stop in zip(starts, [*starts[1:], len(ends)], strict=True):
        yield histories.slice(start, stop - start)


def _samples(users: pa.Table, workflow: Workflow) -> pa.Table:
    samples = dispatch.to_arrow(workflow.transform(data_frame(users)))
    return pa.table([_as(samples[field.name].combine_chunks(), field.type) for field in SAMPLE], schema=SAMPLE)


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_list(kind):
        return column.cast(kind)
    return pa.ListArray.from_arrays(column.offsets, column.values.cast(pa.int32()), type=kind)
