"""How often each item occurs in the reviews that train, its category and its title.

See ``components.feature_spec.catalogue``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.histories.sorting import HELD_OUT
from components.feature_spec.catalogue import CATALOGUE, NONE, TITLES, read_titles
from components.feature_spec.vocabulary import vocabulary_file

_MERGE_AT = 1 << 22
# Before all times, in nanoseconds; whole days can be subtracted from it.
_NEVER = np.iinfo(np.int64).min // 2


@dataclass(frozen=True)
class Popularity:
    """The (item, category) pairs of the counted reviews, sorted.

    An item can occur with two categories: out-of-vocabulary items share an id.

    Attributes:
        items: int32 [pairs].
        categories: int32 [pairs].
        counts: int64 [pairs], reviews of each pair; float64, their weights, where reviews have some.
    """

    items: np.ndarray
    categories: np.ndarray
    counts: np.ndarray

    def by_item(self, largest: int) -> np.ndarray:
        """Reviews of each item, of the type of ``counts``: [largest + 1], by item id."""
        return np.bincount(self.items, self.counts, minlength=largest + 1).astype(self.counts.dtype)


@dataclass(frozen=True)
class PairCounts:
    """Reviews of each (item, category) pair, or their weight; a pair is item << 32 | category. Sorted by pair."""

    pairs: np.ndarray
    counts: np.ndarray


def pairs_of(items: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """The pair of each review."""
    return items.astype(np.int64) << 32 | categories


def count_pairs(items: np.ndarray, categories: np.ndarray, weights: np.ndarray | None = None) -> PairCounts:
    """Counts equal pairs among reviews, or sums their weights."""
    pairs, places, counts = np.unique(pairs_of(items, categories), return_inverse=True, return_counts=True)
    return PairCounts(pairs, counts if weights is None else np.bincount(places, weights, minlength=len(pairs)))


@dataclass
class PopularityCounter:
    """Adds up the counts of all partitions, in any order."""

    _parts: list[PairCounts] = field(default_factory=list)
    _pending: int = 0

    def add(self, counts: PairCounts) -> None:
        self._parts.append(counts)
        self._pending += len(counts.pairs)
        if self._pending > _MERGE_AT:
            self._merge()

    def popularity(self) -> Popularity:
        counts = self._merge()
        return Popularity((counts.pairs >> 32).astype(np.int32), counts.pairs.astype(np.int32), counts.counts)

    def _merge(self) -> PairCounts:
        pairs, inverse = np.unique(np.concatenate([part.pairs for part in self._parts]), return_inverse=True)
        counts = np.zeros(len(pairs), np.result_type(*(part.counts for part in self._parts)))
        np.add.at(counts, inverse, np.concatenate([part.counts for part in self._parts]))
        self._parts, self._pending = [PairCounts(pairs, counts)], 0
        return self._parts[0]


def counts_of_last(
    encoded: Sequence[Path], largest: int, train_end: int | None, span: int, has_weights: bool
) -> np.ndarray:
    """Occurrences of each item at the end of the reviews that train, int64, or their weight, float64: [largest + 1].

    Args:
        encoded: files of ``encoding.write_encoded``.
        train_end: reviews before this moment train, in nanoseconds since 1970; None ends with the last one that trains.
        span: of time before the end that is counted, in nanoseconds.
    """

    def flat(path: Path, name: str) -> np.ndarray:
        values: np.ndarray = pq.read_table(path, columns=[name])[name].combine_chunks().flatten().to_numpy()
        return values

    def times_of(path: Path) -> np.ndarray:
        return np.where(flat(path, "flags_list") & HELD_OUT == 0, flat(path, "time_list"), _NEVER)

    end = max(int(times_of(path).max()) for path in encoded) + 1 if train_end is None else train_end
    counts = np.zeros(largest + 1, np.float64 if has_weights else np.int64)
    for path in encoded:
        times = times_of(path)
        recent = (times < end) & (times >= end - span)
        weights = flat(path, "weight_list")[recent] if has_weights else None
        counts += np.bincount(flat(path, "item_list")[recent], weights, largest + 1).astype(counts.dtype)
    return counts


def write_catalogue(popularity: Popularity, earlier: np.ndarray | None, largest: int, folder: Path) -> None:
    """Writes columns item and cat (int32), one row per item of known category.

    Args:
        earlier: catalogue of the vocabulary's own data, see ``components.feature_spec.catalogue``; covers items that
            this data lacks.
    """
    categories = np.full(largest + 1, NONE, np.int32)
    if earlier is not None:
        known = min(len(earlier), len(categories))
        categories[:known] = earlier[:known]
    categories[popularity.items] = popularity.categories
    items = np.flatnonzero(categories).astype(np.int32)
    pq.write_table(pa.table({"item": items, "cat": categories[items]}), folder / CATALOGUE)


def write_titles(items: pa.Table, earlier: Path | None, folder: Path) -> None:
    """Writes columns item and title, one row per item of the vocabulary with a title; no file where none has one.

    Args:
        items: of the schema ``sorting.ITEM``; the first title of an item wins.
        earlier: folder of the vocabulary, whose titles cover items that this data lacks; None if fitted on this data.
    """
    known = pq.read_table(folder / vocabulary_file("item"), columns=["value"])["value"]
    tables = [items.select(["asin", "title"]).rename_columns(["item", "title"])]
    tables += [] if earlier is None else [read_titles(earlier).cast(tables[0].schema)]
    titled = pa.concat_tables(
        table.filter(pc.and_(pc.is_valid(table["title"]), pc.is_in(table["item"], value_set=known))) for table in tables
    )
    if len(titled):
        first = titled.group_by("item", use_threads=False).aggregate([("title", "first")])
        pq.write_table(first.rename_columns(["item", "title"]), folder / TITLES)
