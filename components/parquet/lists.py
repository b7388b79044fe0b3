"""Columns of integer lists without nulls, from parquet pages to Arrow arrays.

The general reader takes about 8 ns for a value, most of it to rebuild the lists level by level. Where no list and no
value is null or empty, which is how samples are, a list is a run of repetition levels and costs a few steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.parquet.hybrid import all_are, find_starts, look_up
from components.parquet.pages import Page, Unusual, read_pages

_KINDS: dict[str, np.dtype] = {"INT32": np.dtype(np.int32), "INT64": np.dtype(np.int64)}
_PLAIN, _PLAIN_DICTIONARY, _RLE_DICTIONARY = 0, 2, 8
_LARGEST_BATCH = 1 << 28  # values


def read_lists(
    descriptor: int, chunk: pq.ColumnChunkMetaData, leaf: pq.ColumnSchema, rows: int, batch_rows: int
) -> Iterator[pa.ListArray]:
    """The lists of a column in a row group, ``batch_rows`` at a time, the last batch what is left.

    Args:
        descriptor: of the open file.
        chunk: the column in the row group.
        leaf: the column in the schema.
        rows: of the row group.
        batch_rows: lists in an array.

    Raises:
        Unusual: the column has to be read in another way, from behind the arrays that were given.
    """
    kind = _KINDS.get(leaf.physical_type)
    if kind is None or leaf.max_repetition_level != 1 or not rows or _is_unsigned(leaf):
        raise Unusual
    decoded = _Decoded(kind, batch_rows, batch_rows * chunk.num_values // rows)
    level = leaf.max_definition_level
    left = rows
    dictionary = np.frombuffer(b"", kind)
    for page in read_pages(descriptor, chunk):
        if page.is_dictionary:
            dictionary = _plain(page, kind)
            continue
        decoded.add(page, level, dictionary)
        for array in decoded.take():
            left -= len(array)
            if left < 0:
                raise Unusual
            yield array
    if decoded.rows != left:
        raise Unusual
    yield from decoded.take(all_rows=True)


def _is_unsigned(leaf: pq.ColumnSchema) -> bool:
    return "isSigned=false" in str(leaf.logical_type)


class _Decoded:
    """Lists that were decoded and not taken; the last of ``rows`` may go on in the next page.

    Args:
        kind: of the values.
        batch_rows: lists in an array.
        batch_values: values they probably have.
    """

    def __init__(self, kind: np.dtype, batch_rows: int, batch_values: int) -> None:
        self._kind, self._batch_rows, self._batch_values = kind, batch_rows, batch_values
        self._values, self._starts = np.empty(0, kind), np.empty(0, np.int32)
        self._filled = 0
        self.rows = 0

    def add(self, page: Page, level: int, dictionary: np.ndarray) -> None:
        """Decodes a page whose values all have the definition level ``level``."""
        count, data = page.count, page.data
        if not all_are(data, *page.definition, count, level.bit_length(), level):
            raise Unusual
        filled = self._filled + count
        if filled > _LARGEST_BATCH:
            raise Unusual
        if filled > len(self._values):
            self._values = _larger(self._values, self._filled, filled + self._batch_values)
        if self.rows + count >= len(self._starts):
            self._starts = _larger(self._starts, self.rows, self.rows + count + self._batch_rows + 1)
        rows = find_starts(data, *page.repetition, count, self._filled, self._starts, self.rows)
        if rows < 0 or (rows and self._starts[0]):
            raise Unusual
        out = self._values[self._filled : filled]
        if page.encoding == _PLAIN:
            out[:] = _plain(page, self._kind)
        elif page.encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY) and page.values < len(data):
            width = int(data[page.values])
            if width > 32 or look_up(data, page.values + 1, len(data), count, width, dictionary, out) < 0:
                raise Unusual
        else:
            raise Unusual
        self._filled, self.rows = filled, rows

    def take(self, all_rows: bool = False) -> Iterator[pa.ListArray]:
        """Arrays of ``batch_rows`` complete lists; with ``all_rows`` everything."""
        rows = self.rows if all_rows else max(self.rows - 1, 0) // self._batch_rows * self._batch_rows
        if not rows:
            return
        if all_rows:
            self._starts[rows] = self._filled
        values, starts = self._values, self._starts
        end = int(starts[rows])
        # What stays moves to new memory: the arrays keep the old.
        self._values = _larger(values[end:], self._filled - end, self._filled - end + self._batch_values)
        self._starts = _larger(starts[rows:], self.rows - rows, self.rows - rows + self._batch_rows + 1)
        self._starts[: self.rows - rows] -= end
        self._filled, self.rows = self._filled - end, self.rows - rows
        leaves = pa.array(values[:end])
        for first in range(0, rows, self._batch_rows):
            last = min(first + self._batch_rows, rows)
            yield pa.ListArray.from_arrays(pa.array(starts[first : last + 1]), leaves)


def _larger(array: np.ndarray, filled: int, size: int) -> np.ndarray:
    """A copy with room for ``size`` entries, in Arrow's memory, which is used again without a page fault."""
    copy = np.frombuffer(pa.allocate_buffer(max(size, 1) * array.itemsize), array.dtype)
    copy[:filled] = array[:filled]
    return copy


def _plain(page: Page, kind: np.dtype) -> np.ndarray:
    data = page.data[page.values :]
    if page.encoding not in (_PLAIN, _PLAIN_DICTIONARY) or len(data) != page.count * kind.itemsize:
        raise Unusual
    return data.view(kind)
