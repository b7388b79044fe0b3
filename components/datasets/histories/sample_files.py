"""Samples in parquet: columns in the published order, row groups and compression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from components.datasets.histories.splits import Night, Targets
    from components.workflows.nvtabular_quiet import Workflow

ROW_GROUP = 32_768
_LIST = pa.list_(pa.field("element", pa.int32(), nullable=False))
SAMPLE = pa.schema(
    [
        pa.field("label", pa.int8(), nullable=False),
        *(pa.field(name, pa.int32(), nullable=False) for name in ("uid", "item", "cat")),
        *(pa.field(f"{name}_sequence", _LIST, nullable=False) for name in ("item", "cat", "neg_item", "neg_cat")),
    ]
)


def _schema_of(samples: pa.Table) -> pa.Schema:
    """The schema of samples, further columns last."""
    further = [field for field in samples.schema if field.name not in SAMPLE.names]
    return pa.schema(
        [*SAMPLE, *(pa.field(field.name, _without_nulls(field.type), nullable=False) for field in further)]
    )


def _without_nulls(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind.value_type, nullable=False)) if pa.types.is_nested(kind) else kind


def sample_writer(path: Path, schema: pa.Schema) -> pq.ParquetWriter:
    """A parquet writer of samples; each table becomes a row group.

    LZ4 reads three times as fast as Zstandard. Dictionary encoding would need two thirds of the space, but 2.7 us to
    write a sample instead of 1.6.
    """
    return pq.ParquetWriter(path, schema, compression="lz4", use_dictionary=False, write_statistics=False)


def write_samples(histories: Path, workflow: Workflow, targets: Targets, night: Night | None, output: Path) -> int:
    """Writes the samples of one partition, a few thousand users at a time; returns their number.

    Without samples there is no file.

    Args:
        targets, night: of ``workflow``, which then need not cut the histories of users without a target.
    """
    from components.datasets.histories.samples import with_targets

    users = pq.read_table(histories, columns=workflow.input_schema.column_names)
    groups = _row_groups(_samples(some, workflow) for some in _chunks(with_targets(users, targets, night)))
    first = next(groups, None)
    if first is None:
        return 0
    rows = 0
    with sample_writer(output, first.schema) as writer:
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
    """Slices of whole users, each about a row group of training samples; none of no users."""
    if not len(histories):
        return
    ends = np.cumsum(pc.list_value_length(histories["item_list"]).to_numpy())
    chunk = ends // (ROW_GROUP // 2)
    starts = np.flatnonzero(np.r_[True, chunk[1:] != chunk[:-1]])
    for start, stop in zip(starts, [*starts[1:], len(ends)], strict=True):
        yield histories.slice(start, stop - start)


def _samples(users: pa.Table, workflow: Workflow) -> pa.Table:
    samples = pa.Table.from_pandas(workflow.transform(users.to_pandas()), preserve_index=False)
    schema = _schema_of(samples)
    return samples.select(schema.names).cast(schema)
