"""Samples of a stream of rows, in bounded memory: random rows, and values with all their rows.

Both keep everything at first and halve their sampling rate when full. So they depend only on the rows and their order,
not on how tables batch the rows.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from components.random_draws import GAMMA, mixed

_PENDING = 1 << 16
_NULL = GAMMA  # hash of a null


class RowSample:
    """A uniform random sample of rows.

    Args:
        most: rows to keep; at least half as many are kept once that many were seen.
    """

    def __init__(self, seed: int, most: int) -> None:
        self._random, self._most, self._share = np.random.default_rng(seed), most, 1.0
        self._draws: list[np.ndarray] = []
        self._tables: list[pa.Table] = []
        self._held = 0

    def add(self, table: pa.Table) -> None:
        """Takes rows; all tables have the same columns."""
        draws = self._random.random(table.num_rows)
        if self._share < 1:
            chosen = np.flatnonzero(draws < self._share)
            draws, table = draws[chosen], table.take(pa.array(chosen))
        self._draws.append(draws)
        self._tables.append(table)
        self._held += len(draws)
        while self._held > self._most:
            self._share /= 2
            draws, table = np.concatenate(self._draws), self._table()
            chosen = np.flatnonzero(draws < self._share)
            self._draws, self._tables, self._held = [draws[chosen]], [table.take(pa.array(chosen))], len(chosen)

    def column(self, name: str) -> pa.ChunkedArray | None:
        """A column of the chosen rows; None before any table."""
        return self._table()[name] if self._tables else None

    def _table(self) -> pa.Table:
        self._tables = [pa.concat_tables(self._tables).unify_dictionaries()]
        return self._tables[0]


class ValueSample:
    """Values with a small hash, and how many rows each has: all rows of a chosen value, or none.

    Two samples of different data choose the same values, up to the lower rate of both, so that they can be compared.

    Attributes:
        level: the share of the values is 2 ** -level.
        values: uint64, ascending.
        counts: int64, rows of each.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.level = 0
        self.values, self.counts = np.zeros(0, np.uint64), np.zeros(0, np.int64)
        self._pending: list[np.ndarray] = []
        self._held = 0

    def add(self, hashes: np.ndarray) -> None:
        """Takes the hashes of rows' values, uint64."""
        chosen = hashes[hashes <= largest_hash(self.level)] if self.level else hashes
        self._pending.append(chosen)
        self._held += len(chosen)
        if self._held > _PENDING:
            self.merge_pending()

    def merge_pending(self) -> None:
        """Adds the pending hashes to ``values`` and ``counts``."""
        hashes, counts = np.unique(np.concatenate([np.zeros(0, np.uint64), *self._pending]), return_counts=True)
        self._pending, self._held = [], 0
        values, at = np.unique(np.concatenate([self.values, hashes]), return_inverse=True)
        every = np.bincount(at, np.concatenate([self.counts, counts]), len(values)).astype(np.int64)
        kept = len(values)
        while kept > self._most:
            self.level += 1
            kept = int(np.searchsorted(values, largest_hash(self.level), side="right"))
        self.values, self.counts = values[:kept], every[:kept]

    @property
    def distinct(self) -> int:
        """Estimated number of distinct values of all rows; exact at level 0."""
        return len(self.values) << self.level


def largest_hash(level: int) -> np.uint64:
    """The largest hash that is chosen at a level."""
    return np.uint64((2**64 - 1) >> level)


def hashes_of(column: pa.ChunkedArray) -> np.ndarray:
    """A 64-bit hash of each value, uint64, the same on every machine; nulls have one of their own."""
    if pa.types.is_string(column.type) or pa.types.is_dictionary(column.type):
        encoded = column.combine_chunks()
        encoded = encoded if pa.types.is_dictionary(encoded.type) else encoded.dictionary_encode()
        names = encoded.dictionary.to_numpy(zero_copy_only=False)
        hashed = np.append(pd.util.hash_array(names, categorize=False), _NULL)
        return np.asarray(hashed[pc.fill_null(encoded.indices, len(names)).to_numpy()])
    absent = pc.is_null(column).to_numpy() if column.null_count else None
    filled = column.fill_null(0) if column.null_count else column
    kind = np.float64 if pa.types.is_floating(column.type) else np.int64
    hashed = _mixed(np.ascontiguousarray(filled.to_numpy()).astype(kind))
    return hashed if absent is None else np.where(absent, _NULL, hashed)


def row_hashes(columns: list[np.ndarray]) -> np.ndarray:
    """Hashes of rows from those of their columns."""
    hashed = columns[0]
    for column in columns[1:]:
        hashed = _mixed(hashed * np.uint64(31) + column)
    return hashed


def _mixed(numbers: np.ndarray) -> np.ndarray:
    return np.asarray(mixed(numbers.view(np.uint64) + GAMMA))
