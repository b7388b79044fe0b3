"""How often each item occurs in the kept reviews: the distribution that negatives are drawn from."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

import numpy as np

_MERGE_AT = 1 << 22


@dataclass(frozen=True)
class Popularity:
    """The (item, category) pairs of all kept reviews; drawing a review draws a pair by popularity.

    An item can occur with two categories: out-of-vocabulary items share an id.

    Attributes:
        items: int32 [pairs].
        categories: int32 [pairs].
        reviews: int32 [reviews], the pair of each review; equal pairs are adjacent.
    """

    items: np.ndarray
    categories: np.ndarray
    reviews: np.ndarray

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for name, array in vars(self).items():
            np.save(folder / f"{name}.npy", array)


def load_popularity(folder: Path) -> Popularity:
    """Memory-maps the files of ``save``; the processes of a machine share the pages.

    Release it early: a network file system cannot remove a folder with a mapped file.
    """
    return Popularity(*(np.load(folder / f"{part.name}.npy", mmap_mode="r") for part in fields(Popularity)))


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
        reviews = np.repeat(np.arange(len(items), dtype=np.int32), counts.counts)
        return Popularity(items, counts.pairs.astype(np.int32), reviews)

    def _merge(self) -> PairCounts:
        pairs, places = np.unique(np.concatenate([part.pairs for part in self._parts]), return_inverse=True)
        counts = np.zeros(len(pairs), np.int64)
        np.add.at(counts, places, np.concatenate([part.counts for part in self._parts]))
        self._parts, self._pending = [PairCounts(pairs, counts)], 0
        return self._parts[0]
