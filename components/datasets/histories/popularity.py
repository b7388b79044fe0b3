"""How often each item occurs in the reviews that train."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

_MERGE_AT = 1 << 22


@dataclass(frozen=True)
class Popularity:
    """The (item, category) pairs of the counted reviews, sorted.

    An item can occur with two categories: out-of-vocabulary items share an id.

    Attributes:
        items: int32 [pairs].
        categories: int32 [pairs].
        counts: int64 [pairs], reviews of each pair.
    """

    items: np.ndarray
    categories: np.ndarray
    counts: np.ndarray

    def by_item(self, largest: int) -> np.ndarray:
        """Reviews of each item: int64 [largest + 1], by item id."""
        return np.bincount(self.items, self.counts, minlength=largest + 1).astype(np.int64)


@dataclass(frozen=True)
class PairCounts:
    """Reviews of each (item, category) pair; a pair is item << 32 | category. Sorted by pair."""

    pairs: np.ndarray
    counts: np.ndarray


def pairs_of(items: np.ndarray, categories: np.ndarray) -> np.ndarray:
    """The pair of each review."""
    return items.astype(np.int64) << 32 | categories


def count_pairs(items: np.ndarray, categories: np.ndarray) -> PairCounts:
    """Counts equal pairs among reviews."""
    return PairCounts(*np.unique(pairs_of(items, categories), return_counts=True))


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
        counts = np.zeros(len(pairs), np.int64)
        np.add.at(counts, inverse, np.concatenate([part.counts for part in self._parts]))
        self._parts, self._pending = [PairCounts(pairs, counts)], 0
        return self._parts[0]
