"""Histories as lists of events: an event is an item or, with further columns, a struct of the item and their values."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import KfrecError

ITEM = "item"
"""The field of an event's item."""


def with_columns(items: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Events, ``[n]``.

    Args:
        items: string ``[n]``.
        columns: name to values, ``[n]`` each; the names are those of columns of the role ``raw_rows.BESIDE``.
    """
    return pa.StructArray.from_arrays([items, *columns.values()], names=[ITEM, *columns]) if columns else items


def lists_of(lengths: np.ndarray, values: pa.Array) -> pa.Array:
    """Lists of these lengths, one after the other in ``values``."""
    return pa.ListArray.from_arrays(pa.array(np.append(0, np.cumsum(lengths)), pa.int32()), values)


def lengths_of(lists: pa.Array) -> np.ndarray:
    """Lengths of lists, int64 ``[n]``; 0 of a null one."""
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def items_of(histories: pa.Array) -> pa.Array:
    """The items of lists of events, list of string ``[n]``."""
    return histories if not _has_columns(histories) else lists_of(lengths_of(histories), _values(histories, ITEM))


def values_of(histories: pa.Array, column: str) -> pa.Array:
    """The values of a column in lists of events, as lists ``[n]``; null for events without it."""
    lengths = lengths_of(histories)
    is_there = _has_columns(histories) and histories.type.value_type.get_field_index(column) >= 0
    return lists_of(lengths, _values(histories, column) if is_there else pa.nulls(int(lengths.sum())))


def newest_of(lists: pa.Array) -> pa.Array:
    """The last value of each list, ``[n]``; null of an empty one."""
    lengths = lengths_of(lists)
    return lists.flatten().take(pa.array(np.cumsum(lengths) - 1, mask=lengths == 0))


def require_lengths(items: np.ndarray, values: np.ndarray, column: str) -> None:
    """Checks that a column has a value for each item of a history, or none.

    Args:
        items: length of each history, ``[n]`` or ``[1]``.
        values: length of each list of the column, ``[n]`` or ``[1]``.

    Raises:
        KfrecError: a list has another length than its history.
    """
    wrong = (values != 0) & (values != items)
    if wrong.any():
        row = int(np.argmax(wrong))
        count, wanted = (int(np.broadcast_to(sizes, wrong.shape)[row]) for sizes in (values, items))
        raise KfrecError(
            f"column {column} has {count} values beside a history of {wanted} items; give one value for each item, or "
            "none"
        )


def _has_columns(histories: pa.Array) -> bool:
    return bool(pa.types.is_struct(histories.type.value_type))


def _values(histories: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(histories.flatten(), name)
