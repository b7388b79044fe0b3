"""Vocabularies of columns of events, and the ids of their values.

Categories have the ids of NVTabular's Categorify, the most frequent one the smallest. A number has the id of the
interval that it is in: as many intervals as values, or where there are more, intervals with about equally many events.
0 pads, 1 is a missing value, 2 a category out of vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.feature_spec.event_columns import MISSING, EventColumn
from components.feature_spec.vocabulary import NVTABULAR_UNKNOWN, vocabulary_file
from components.workflows.values import DEFAULT_MISSING, numbers, texts

FIRST_ID = 3
# Largest number of a column's intervals.
INTERVALS = 32
# Most values that the intervals of a column are found from, evenly spaced ones of all.
_SAMPLE = 1 << 20


def type_of(column: EventColumn) -> pa.DataType:
    """The type of the values that ``read`` returns."""
    return pa.float64() if column.is_number else pa.string()


def read(column: EventColumn, values: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """Values as the vocabulary has them.

    Args:
        values: of a file or a request, ``[n]``.

    Returns:
        Of the type ``type_of``, null where missing; and the mask of what is no number, bool ``[n]``.

    Raises:
        KfrecError: they are lists.
    """
    if pa.types.is_nested(values.type):
        raise KfrecError(f"column {column.name} is of the type {values.type}; give one value an event")
    if not column.is_number:
        return texts(values, DEFAULT_MISSING).cast(pa.string()), np.zeros(len(values), bool)
    found, wrong = numbers(values, DEFAULT_MISSING)
    return pa.array(found, mask=np.isnan(found)), wrong


class ColumnIds:
    """The ids of a column's values.

    Args:
        values: of its vocabulary, in the order of the ids: categories, or lower bounds of intervals, ascending.
    """

    def __init__(self, column: EventColumn, values: pa.Array) -> None:
        self.column, self._values = column, values.cast(pa.string())
        self._bounds = self._values.cast(pa.float64()).to_numpy() if column.is_number else np.zeros(0)

    @property
    def values(self) -> Sequence[str]:
        """The values, in the order of their ids, for examples."""
        found: list[str] = self._values.to_pylist()
        return found

    @property
    def largest(self) -> int:
        """The largest id."""
        return FIRST_ID + len(self._values) - 1

    def encode(self, values: pa.Array) -> np.ndarray:
        """Ids of values as ``read`` returns them, int32 ``[n]``."""
        missing = values.is_null().to_numpy(zero_copy_only=False)
        if self.column.is_number:
            found = values.fill_null(0).to_numpy(zero_copy_only=False)
            places = np.searchsorted(self._bounds, found, side="right") - 1
            places = np.clip(places, 0, max(len(self._bounds) - 1, 0))
        else:
            found = pc.index_in(values, value_set=self._values, skip_nulls=True)
            places = pc.fill_null(found, NVTABULAR_UNKNOWN - FIRST_ID).to_numpy(zero_copy_only=False)
        return np.where(missing, MISSING, places + FIRST_ID).astype(np.int32)

    def write(self, folder: Path) -> None:
        """Writes the vocabulary, columns id (int32) and value (string), below an artifact's folder."""
        ids = pa.array(np.arange(FIRST_ID, FIRST_ID + len(self._values)), pa.int32())
        pq.write_table(pa.table({"id": ids, "value": self._values}), folder / vocabulary_file(self.column.field))


def fit_columns(
    columns: Sequence[EventColumn],
    earlier: Mapping[str, pa.Array],
    histories: Sequence[Path],
    rows: pc.Expression | None,
) -> list[ColumnIds]:
    """Learns the vocabularies of columns.

    Args:
        earlier: values that are kept, by ``EventColumn.field``.
        histories: files of the schema ``sorting.history_schema``.
        rows: to learn from; None learns from all.
    """
    return [
        ColumnIds(column, earlier[column.field] if column.field in earlier else _values_of(column, histories, rows))
        for column in columns
    ]


def _values_of(column: EventColumn, histories: Sequence[Path], rows: pc.Expression | None) -> pa.Array:
    tables = (pq.read_table(path, columns=[column.field], filters=rows)[column.field] for path in histories)
    if column.is_number:
        step = -(-sum(pq.read_metadata(path).num_rows for path in histories) // _SAMPLE) or 1
        return _bounds(np.concatenate([np.zeros(0), *(values.drop_null().to_numpy()[::step] for values in tables)]))
    counts: Counter[str] = Counter()
    for values in tables:
        for each in values.drop_null().value_counts().to_pylist():
            counts[each["values"]] += each["counts"]
    return pa.array(sorted(counts, key=lambda value: (-counts[value], value)), pa.string())


def _bounds(values: np.ndarray) -> pa.Array:
    """The lower bounds of the intervals of values, as text."""
    distinct = np.unique(values)
    if len(distinct) > INTERVALS:
        distinct = np.unique(np.quantile(values, np.arange(INTERVALS) / INTERVALS, method="lower"))
    return pa.array([repr(float(value)) for value in distinct], pa.string())
