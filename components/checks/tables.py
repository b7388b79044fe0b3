"""Profiles the raw rows of a data set as they are read, in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.checks.profile import CATEGORY, NUMBER, TIME, Column, Kind, Table, Values
from components.checks.samples import RowSample, ValueSample, hashes_of, largest_hash, row_hashes

# Memory limits: sampled rows of a table for histograms, and values of a column for the share of new ones.
SAMPLED_ROWS, SAMPLED_VALUES = 65_536, 2048
CATEGORIES, BINS = 64, 10
_LONGEST = 100
# Columns of a key whose hash chooses rows, and the bits of a row's hash that come from them.
_FIRST, _UPPER = 4, np.uint64(0xFFFFFFFF00000000)
# Edges of the bins of popularity: how often a value occurs, relative to the mean.
POPULARITY = tuple(2.0**power for power in range(-3, 9))


@dataclass(frozen=True)
class Profiled:
    """A column to profile.

    Attributes:
        kind: CATEGORY, NUMBER or TIME; for a list, of its elements.
        counted: count its values, to measure new ones and popularity. Such values may name users, so the profile holds
            only their hashes.
        absent: number that means missing, besides null and NaN.
        unit: seconds per tick of a time.
        epoch: seconds since 1970 of a time of 0.
    """

    name: str
    kind: Kind
    counted: bool = False
    absent: float | None = None
    unit: float = 1.0
    epoch: float = 0.0


class TableProfiler:
    """Profiles rows of one kind.

    Args:
        key: names of the columns that identify duplicates, those with most values first; empty looks for none.

    Attributes:
        malformed: refused rows; the reader counts them.
    """

    def __init__(self, columns: Sequence[Profiled], key: Sequence[str], seed: int) -> None:
        self._columns, self._key = {column.name: column for column in columns}, tuple(key)
        self._sample = RowSample(seed, SAMPLED_ROWS)
        self._values = {column.name: ValueSample(SAMPLED_VALUES) for column in columns if column.counted}
        self._keys = ValueSample(SAMPLED_VALUES)
        self._missing = dict.fromkeys(self._columns, 0)
        self._range: dict[str, tuple[float, float]] = {}
        self._rows = 0
        self.malformed = 0

    def add(self, rows: pa.Table) -> None:
        """Takes rows that have the columns."""
        self._rows += rows.num_rows
        first, rest = self._key[:_FIRST], self._key[_FIRST:]
        hashed = {name: hashes_of(rows[name]) for name in {*self._values, *first}}
        for name, values in self._values.items():
            present = hashed[name]
            values.add(present[pc.is_valid(rows[name]).to_numpy()] if rows[name].null_count else present)
        if first:
            # Equal rows agree in their first columns: only those chosen by these are hashed in full.
            keys = row_hashes([hashed[name] for name in first])
            chosen = np.flatnonzero(keys <= largest_hash(self._keys.level))
            keys = keys[chosen]
            if rest:
                few = rows.select(list(rest)).take(pa.array(chosen))
                every = row_hashes([keys, *(hashes_of(few[name]) for name in rest)])
                keys = (keys & _UPPER) | (every & ~_UPPER)
            self._keys.add(keys)
        for name, column in self._columns.items():
            self._missing[name] += _missing(rows[name], column.absent)
            if column.kind in (NUMBER, TIME):
                self._widen(name, rows[name])
        self._sample.add(rows.select(list(self._columns)))

    def _widen(self, name: str, column: pa.ChunkedArray) -> None:
        extremes = pc.min_max(column)
        low, high = extremes["min"].as_py(), extremes["max"].as_py()
        if low is not None and np.isfinite([low, high]).all():
            was = self._range.get(name, (low, high))
            self._range[name] = min(was[0], low), max(was[1], high)

    def profile(self) -> Table:
        self._keys.merge_pending()
        rows, distinct = int(self._keys.counts.sum()), len(self._keys.values)
        duplicates = 1 - distinct / rows if rows else None
        return Table(self._rows, self.malformed, duplicates, {name: self._described(name) for name in self._columns})

    def shares(self, name: str, like: Column) -> np.ndarray | None:
        """The shares of a column's values in the bins, or of the categories, of ``like``; None without a value."""
        values = self._sampled(name)
        if like.kind == TIME or not len(values):
            return None
        if like.kind == NUMBER:
            return _binned(_numbers(values), like.edges)
        at = pc.index_in(self._labels(name, values), value_set=pa.array(like.categories, pa.string()))
        codes = pc.fill_null(at, len(like.categories)).to_numpy()
        return np.asarray(np.bincount(codes, minlength=len(like.categories) + 1) / len(codes))

    def _described(self, name: str) -> Column:
        column, values = self._columns[name], self._sampled(name)
        missing = self._missing[name] / self._rows if self._rows else 0.0
        low, high = self._range.get(name, (None, None))
        described: dict[str, Any] = {"lowest": low, "highest": high}
        if column.kind == TIME and low is not None and high is not None:
            described = {"lowest": column.epoch + low * column.unit, "highest": column.epoch + high * column.unit}
        elif column.kind == NUMBER and len(values):
            numbers = _numbers(values)
            edges = np.unique(np.quantile(numbers, np.arange(1, BINS) / BINS, method="lower"))
            described |= {"edges": tuple(edges.tolist()), "shares": tuple(_binned(numbers, edges).tolist())}
        elif column.kind == CATEGORY and len(values):
            categories, shares = _most_frequent(self._labels(name, values))
            described |= {"categories": categories, "shares": shares}
        if name in self._values:
            described["values"] = _counted(self._values[name])
        return Column(column.kind, missing, **described)

    def _labels(self, name: str, values: pa.Array) -> pa.Array:
        """The values of a category as text; of a counted column as their hashes, 16 hexadecimal digits."""
        texts = _texts(values)
        if not self._columns[name].counted:
            return texts
        encoded = texts.dictionary_encode()
        hashed = hashes_of(pa.chunked_array([encoded.dictionary]))
        return pa.array([f"{value:016x}" for value in hashed.tolist()], pa.string()).take(encoded.indices)

    def _sampled(self, name: str) -> pa.Array:
        """The known values of a column in the sample of rows; of lists, their elements."""
        sampled = self._sample.column(name)
        if sampled is None:
            return pa.array([])
        values = pc.list_flatten(sampled) if pa.types.is_list(sampled.type) else sampled
        values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        values = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        values = values.drop_null()
        absent = self._columns[name].absent
        if pa.types.is_floating(values.type):
            values = values.filter(pc.is_finite(values))
        return values if absent is None else values.filter(pc.not_equal(values, pa.scalar(absent, values.type)))


def new_values(ours: Values, theirs: Values) -> float | None:
    """Share of our values that are not among theirs; None if too few are sampled to tell."""
    last = f"{int(largest_hash(max(ours.level, theirs.level))):016x}"
    known = set(theirs.hashes)
    comparable = [value for value in ours.hashes if value <= last]
    return sum(value not in known for value in comparable) / len(comparable) if comparable else None


def _missing(column: pa.ChunkedArray, absent: float | None) -> int:
    count = int(column.null_count)
    if pa.types.is_floating(column.type):
        count += int(pc.sum(pc.is_nan(column)).as_py() or 0)
    if absent is not None:
        count += int(np.count_nonzero(column.to_numpy() == absent))
    return count


def _numbers(values: pa.Array) -> np.ndarray:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.float64)


def _texts(values: pa.Array) -> pa.Array:
    return pc.utf8_slice_codeunits(pc.cast(values, pa.string()), 0, _LONGEST)


def _binned(numbers: np.ndarray, edges: Sequence[float] | np.ndarray) -> np.ndarray:
    """Shares of the right-closed bins: up to the first edge, between two edges, and above the last."""
    at = np.searchsorted(np.asarray(edges, np.float64), numbers, side="left")
    return np.asarray(np.bincount(at, minlength=len(edges) + 1) / len(numbers))


def _most_frequent(texts: pa.Array) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The most frequent texts, and their shares with that of all others last."""
    counted = [(-entry["counts"], entry["values"]) for entry in texts.value_counts().to_pylist()]
    most = sorted(counted)[:CATEGORIES]
    shares = [-count / len(texts) for count, _ in most]
    return tuple(text for _, text in most), (*shares, max(1 - sum(shares), 0.0))


def _counted(sample: ValueSample) -> Values:
    sample.merge_pending()
    hashes = tuple(f"{value:016x}" for value in sample.values.tolist())
    shares = _binned(sample.counts / sample.counts.mean(), POPULARITY) if len(sample.counts) else np.zeros(0)
    return Values(sample.distinct, sample.level, hashes, tuple(shares.tolist()))
