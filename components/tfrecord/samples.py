"""From a batch of parquet rows to varints, left-padded and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from components.errors import KfrecError
from components.feature_spec.spec import FILENAME, LARGEST_ID
from components.records.encoding import write_floats, write_lists
from components.tfrecord.row_groups import RowGroup
from components.tfrecord.schema import Column


class LongerList(Exception):
    """A list is longer than the assumed length of its group.

    Attributes:
        longest: values of the longest list at hand.
    """

    def __init__(self, group: str, longest: int) -> None:
        super().__init__(group, longest)
        self.group, self.longest = group, longest


def write_varints(
    batch: pa.RecordBatch,
    columns: Sequence[Column],
    lengths: Mapping[str, int],
    group: RowGroup,
    varints: np.ndarray,
    ends: np.ndarray,
) -> None:
    """Writes the values of a batch as varints to ``varints``, column after column.

    Args:
        batch: rows of ``group``.
        varints: uint8, with room for all values.
        ends: int64 [columns, at least rows + 1], receives the offsets of each row's values in ``varints``.

    Raises:
        KfrecError: a null, an id out of range (0, which is padding, in lists only), a label that is not 0 or 1, a float
            that is not finite, or features of a history that differ in length.
        LongerList: a list has more values than ``lengths`` says.
    """
    at = 0
    histories: dict[str, np.ndarray] = {}
    for column, name, array in zip(columns, group.names, batch.columns, strict=True):
        length = lengths[column.group] if column.is_list else 1
        values, offsets = _values_and_offsets(array, column, name, group)
        if column.is_list:
            sizes = np.diff(offsets)
            # First, because the length of a channel is determined by its first feature alone.
            _check_sizes(sizes, histories.setdefault(column.group, sizes), column, columns, group)
            if sizes.max() > length:
                raise LongerList(column.group, int(sizes.max()))
        elif not column.has_zeros and not values.all():
            raise _outside(group, column, name)
        if column.is_float:
            good = write_floats(values, offsets, length, varints, at, ends[column.index])
        else:
            limit = LARGEST_ID if column.cardinality is None else column.cardinality
            good = write_lists(values, offsets, limit, length, varints, at, ends[column.index])
        if not good:
            raise _outside(group, column, name)
        at = int(ends[column.index, batch.num_rows])


def longest_list(group: RowGroup, columns: Sequence[Column]) -> dict[str, int]:
    """The longest list of each group in a row group of the files, by reading one feature of each."""
    firsts = {column.group: group.names[column.index] for column in reversed(columns) if column.is_list}
    longest = dict.fromkeys(firsts, 0)
    for batch in group.batches(list(firsts.values())):
        for key, name in firsts.items():
            offsets = _offsets(batch.column(batch.schema.get_field_index(name)))
            longest[key] = max(longest[key], int(np.diff(offsets).max()))
    return longest


def _values_and_offsets(array: pa.Array, column: Column, name: str, group: RowGroup) -> tuple[np.ndarray, np.ndarray]:
    """Integers, or the bits of floats, and the offsets of each row's values."""
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
            f"{group.path}: column {name} has {nulls} nulls from row {group.first_row} on; give missing values an id"
        )
    if column.is_float:
        floats = leaves.cast(pa.float32()).to_numpy(zero_copy_only=False).view(np.uint32)
        floats.flags.writeable = False
        return floats, offsets
    if pa.types.is_boolean(leaves.type):
        leaves = leaves.cast(pa.int8())
    values = leaves.to_numpy(zero_copy_only=True)
    if values.dtype not in (np.int32, np.int64):
        values = values.astype(np.int64)
    values.flags.writeable = False  # like zero-copy arrays; kernels are compiled for one kind only
    return values, offsets


def _offsets(array: pa.Array) -> np.ndarray:
    """The list offsets into ``array.values``, int64 [n + 1]."""
    if pa.types.is_fixed_size_list(array.type):
        return (array.offset + np.arange(len(array) + 1)) * array.type.list_size
    return array.offsets.to_numpy(zero_copy_only=True).astype(np.int64)


def _check_sizes(
    sizes: np.ndarray, expected: np.ndarray, column: Column, columns: Sequence[Column], group: RowGroup
) -> None:
    differing = int((sizes != expected).sum())
    if differing:
        first = next(group.names[other.index] for other in columns if other.group == column.group)
        raise KfrecError(
            f"{group.path}: column {group.names[column.index]} has {differing} lists whose lengths differ from those "
            f"of {first}; every feature of the {column.group} needs one value per item"
        )


def _outside(group: RowGroup, column: Column, name: str) -> KfrecError:
    """Counts the invalid values in a column of a row group."""
    if column.is_float:
        batches = (_values_and_offsets(batch.column(0), column, name, group)[0] for batch in group.batches([name]))
        wrong = sum(int((~np.isfinite(values.view(np.float32))).sum()) for values in batches)
        return KfrecError(
            f"{group.path}: column {name} has {wrong} values that are not finite; give missing values a number"
        )
    limit = LARGEST_ID if column.cardinality is None else column.cardinality
    below = above = zeros = 0
    for batch in group.batches([name]):
        values, _ = _values_and_offsets(batch.column(0), column, name, group)
        below += int((values < 0).sum())
        zeros += int((values == 0).sum())
        above += int((values > limit).sum())
    if column.is_bool:
        return KfrecError(f"{group.path}: column {name} has {below + above} values that are not 0 or 1; correct them")
    if below:
        return KfrecError(
            f"{group.path}: column {name} has {below} negative ids; ids start at 1, and 0 is padding: encode it again"
        )
    if zeros and not column.is_list:
        return KfrecError(
            f"{group.path}: column {name} has {zeros} of {group.rows} ids that are 0 from row {group.first_row} on; "
            "ids start at 1, and 0 is padding: encode it again"
        )
    return KfrecError(
        f"{group.path}: column {name} has {above} ids above the cardinality {limit} in {FILENAME}; "
        f"correct the cardinality, or encode the data again"
    )
