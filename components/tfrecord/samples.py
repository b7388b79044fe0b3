"""From a batch of parquet rows to rows of a matrix, left-padded and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from components.errors import KfrecError
from components.feature_spec import Channel
from components.records.compiled import kernel
from components.tfrecord.parts import RowGroup
from components.tfrecord.schema import METADATA, Column


class LongerList(Exception):
    """A list is longer than its channel was thought to be."""


def fill(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    lengths: Mapping[str, int],
    group: RowGroup,
    rows: np.ndarray,
    target: np.ndarray,
) -> None:
    """Writes the samples of a batch to ``rows``, the values of its columns side by side.

    Args:
        batch: rows of ``group``.
        columns: what its columns mean.
        lengths: values a sample has in each history channel.
        group: named in errors.
        rows: int32 [n, at least the sum of all lengths].
        target: int64 [n], the row of ``rows`` that each row of the batch goes to.

    Raises:
        KfrecError: a null, an id out of range, a label that is not 0 or 1, or features of a history that differ in
            length.
        LongerList: a list has more values than ``lengths`` says.
    """
    place = 0
    histories: dict[str, np.ndarray] = {}
    for column, name, array in zip(columns, group.names, batch.columns, strict=True):
        length = lengths.get(column.channel, 1)
        values, offsets = _values_and_offsets(array, column, name, group)
        if column.is_list:
            sizes = np.diff(offsets)
            if sizes.max() > length:
                raise LongerList(column.channel)
            _check_sizes(sizes, histories.setdefault(column.channel, sizes), column, columns, group)
        if _fill(values, offsets, column.cardinality, rows, target, place, length):
            raise _outside(group, column, name)
        place += length


def longest_list(group: RowGroup, columns: Sequence[Column]) -> dict[str, int]:
    """The longest list of each history channel in a row group, by reading one feature of each channel."""
    firsts = {column.channel: group.names[column.index] for column in reversed(columns) if column.is_list}
    longest = dict.fromkeys(firsts, 0)
    for batch in group.batches(list(firsts.values())):
        for channel, name in firsts.items():
            offsets = _offsets(batch.column(batch.schema.get_field_index(name)))
            longest[channel] = max(longest[channel], int(np.diff(offsets).max()))
    return longest


@kernel
def _fill(values, offsets, limit, rows, target, place, length):  # type: ignore[no-untyped-def]
    """Copies the lists to the right end of ``rows[target, place : place + length]``; the values out of range."""
    highest = np.uint64(limit)
    outside = 0
    for i in range(len(target)):
        begin, end = offsets[i], offsets[i + 1]
        out = rows[target[i], place : place + length]
        padding = length - (end - begin)
        out[:padding] = 0
        for j in range(end - begin):
            value = values[begin + j]
            outside += np.uint64(value) > highest
            out[padding + j] = value
    return outside


def _values_and_offsets(array: pa.Array, column: Column, name: str, group: RowGroup) -> tuple[np.ndarray, np.ndarray]:
    """Integer values, and where each row's begin and end among them."""
    nulls = array.null_count
    if column.is_list:
        offsets = _offsets(array)
        leaves = array.values.slice(int(offsets[0]), int(offsets[-1] - offsets[0]))
        offsets = offsets - offsets[0]
        nulls += leaves.null_count
    else:
        leaves, offsets = array, np.arange(len(array) + 1)
    if nulls:
        raise KfrecError(
            f"{group.path}: column {name} has {nulls} nulls in rows {group.first_row} and on; give missing values an id"
        )
    if pa.types.is_boolean(leaves.type):
        leaves = leaves.cast(pa.int8())
    values = leaves.to_numpy(zero_copy_only=True)
    if values.dtype not in (np.int32, np.int64):
        values = values.astype(np.int64)
    values.flags.writeable = False  # as those are that share memory with parquet; kernels are compiled for one kind
    return values, offsets


def _offsets(array: pa.Array) -> np.ndarray:
    """Where each list begins and ends among ``array.values``, int64 [n + 1]."""
    if pa.types.is_fixed_size_list(array.type):
        return (array.offset + np.arange(len(array) + 1)) * array.type.list_size
    return array.offsets.to_numpy(zero_copy_only=True).astype(np.int64)


def _check_sizes(
    sizes: np.ndarray, expected: np.ndarray, column: Column, columns: Sequence[Column], group: RowGroup
) -> None:
    differing = int((sizes != expected).sum())
    if differing:
        first = next(group.names[other.index] for other in columns if other.channel == column.channel)
        raise KfrecError(
            f"{group.path}: column {group.names[column.index]} has {differing} lists that are not as long as those of "
            f"{first}; every feature of the {column.channel} needs one value an item"
        )


def _outside(group: RowGroup, column: Column, name: str) -> KfrecError:
    """Counts what is wrong with a column of a row group."""
    below = above = 0
    for batch in group.batches([name]):
        values, _ = _values_and_offsets(batch.column(0), column, name, group)
        below += int((values < 0).sum())
        above += int((values > column.cardinality).sum())
    if column.channel == Channel.LABEL:
        return KfrecError(f"{group.path}: column {name} has {below + above} labels that are not 0 or 1; correct them")
    if below:
        return KfrecError(
            f"{group.path}: column {name} has {below} negative ids; ids start at 1, and 0 is padding: encode it again"
        )
    return KfrecError(
        f"{group.path}: column {name} has {above} ids above the cardinality {column.cardinality} in {METADATA}; "
        f"correct the cardinality, or encode the data again"
    )
