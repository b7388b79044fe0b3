"""How often each item occurs in the kept reviews: the distribution that negatives are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

_MERGE_AT = 1 << 22


@dataclass(frozen=True)
class Popularity:
    """The (item, category) pairs of all kept reviews, a draw from which is a draw from the reviews.

    An item can occur with two categories: out-of-vocabulary items share an id.

    Attributes:
        items: int32 [pairs].
        categories: int32 [pairs].
        cumulative: int64 [pairs]; reviews of this pair and all before it. Review number r, from 0, is of the first pair
            with cumulative > r.
    """

    items: np.ndarray
    categories: np.ndarray
    cumulative: np.ndarray

    def save(self, path: Path) -> None:
        np.savez(path, items=self.items, categories=self.categories, cumulative=self.cumulative)


@lru_cache(maxsize=1)
def load_popularity(path: Path) -> Popularity:
    """Reads what ``save`` wrote, once a process."""
    with np.load(path) as arrays:
        return Popularity(arrays["items"], arrays["categories"], arrays["cumulative"])


@dataclass(frozen=True)
class PairCounts:
    """Reviews of each (item, category) pair; a pair is item << 32 | category. Sorted by pair."""

    pairs: np.ndarray
    counts: np.ndarray


def count_pairs(items: np.ndarray, categories: np.ndarray) -> PairCounts:
    """Counts equal pairs among reviews."""
    return PairCounts(*np.unique(items.astype(np.int64) << 32 | categories, return_counts=True))


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
        items = (counts.pairs >> 32).astype(np.int32)
        return Popularity(items, counts.pairs.astype(np.int32), np.cumsum(counts.counts, dtype=np.int64))

    def _merge(self) -> PairCounts:
        pairs, places = np.unique(np.concatenate([part.pairs for part in self._parts]), return_inverse=True)
        counts = np.zeros(len(pairs), np.int64)
        np.add.at(counts, places, np.concatenate([part.counts for part in self._parts]))
        self._parts, self._pending = [PairCounts(pairs, counts)], 0
        return self._parts[0]
