"""Negatives: items drawn by how often they were reviewed, over all time or around the target's time.

Drawn over all time, a negative often did not exist yet, or no longer, when the target was chosen. Telling the eras of
items apart then scores far above 0.5 without any preference of the user. Contemporary negatives were reviewed within a
window around the target's time, so only the user's preference, and what was popular then, remain to be learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from components.datasets.histories.catalogue import Popularity, pairs_of
from components.datasets.histories.sorting import HELD_OUT
from components.datasets.histories.splits import Events
from components.feature_spec.vocabulary import NVTABULAR_UNKNOWN
from components.random_draws import draws

# A window holds at least the reviews nearest in time, where they are sparse.
_NEAREST = 100
# Draws before the unseen items of a window are listed.
_TRIES = 16


@dataclass(frozen=True)
class Pool:
    """The reviews that negatives are drawn from, as (item, category) pairs.

    An item can occur with two categories: out-of-vocabulary items share an id.

    Attributes:
        items: int32 [pairs].
        categories: int32 [pairs].
        reviews: int32 [reviews], the pair of each review.
        times: int64 [reviews], ascending; empty if the whole pool is one window.
        weights: float64 [reviews + 1], cumulative weights from 0 on; empty if all reviews weigh the same.
    """

    items: np.ndarray
    categories: np.ndarray
    reviews: np.ndarray
    times: np.ndarray
    weights: np.ndarray

    def save(self, folder: Path) -> None:
        folder.mkdir()
        for name, array in vars(self).items():
            np.save(folder / f"{name}.npy", array)

    def until(self, moment: int) -> int:
        """The number of reviews before a moment."""
        return int(np.searchsorted(self.times, moment))


def load_pool(folder: Path) -> Pool:
    """Memory-maps the files of ``save``; the processes of a machine share the pages.

    Release it early: a network file system cannot remove a folder with a mapped file.
    """
    return Pool(*(np.load(folder / f"{part.name}.npy", mmap_mode="r") for part in fields(Pool)))


def pool_by_popularity(popularity: Popularity) -> Pool:
    """All counted reviews as one window; of pairs with a weight each pair is one review."""
    reviews, weights = np.arange(len(popularity.items), dtype=np.int32), np.zeros(0)
    if popularity.counts.dtype == np.float64:
        reviews = reviews[popularity.counts > 0]
        weights = _sums(popularity.counts[reviews])
    else:
        reviews = np.repeat(reviews, popularity.counts)
    return Pool(popularity.items, popularity.categories, reviews, np.zeros(0, np.int64), weights)


def pool_by_time(encoded: Sequence[Path], has_weights: bool) -> Pool:
    """All reviews that are not held out in order of time, those of weight 0 left out."""
    names = ["item_list", "cat_list", "time_list", "flags_list", *(["weight_list"] if has_weights else [])]
    columns = [pq.read_table(path, columns=names) for path in encoded]
    items, cats, times, flags, *weights = (
        np.concatenate([table[name].combine_chunks().flatten().to_numpy() for table in columns]) for name in names
    )
    del columns
    drawn = flags & HELD_OUT == 0
    if weights:
        drawn &= weights[0] > 0
    if not drawn.all():
        items, cats, times, weights = items[drawn], cats[drawn], times[drawn], [each[drawn] for each in weights]
    pairs, reviews = np.unique(pairs_of(items, cats), return_inverse=True)
    order = np.lexsort((reviews, times))
    pool = (pairs >> 32).astype(np.int32), pairs.astype(np.int32)
    sums = _sums(weights[0][order]) if weights else np.zeros(0)
    return Pool(*pool, reviews.astype(np.int32)[order], times[order], sums)


def _sums(weights: np.ndarray) -> np.ndarray:
    return np.append(0.0, np.cumsum(weights, dtype=np.float64))


def recent_counts(pool: Pool, largest: int, train_end: int, window: int) -> np.ndarray:
    """Reviews of each item in the last window before the end of the training, int64, or their weight, float64:
    [largest + 1], by item id."""
    stop = pool.until(train_end)
    start = min(pool.until(train_end - window), max(stop - _NEAREST, 0))
    weights = np.diff(pool.weights[start : stop + 1]) if len(pool.weights) else None
    return np.bincount(pool.items[pool.reviews[start:stop]], weights, largest + 1)


@dataclass(frozen=True)
class Negatives:
    """Draws the negatives of one split.

    Attributes:
        before: reviews from this moment on are not drawn, in nanoseconds since 1970; None draws all.
        window: largest distance in time from the target, in nanoseconds; ignored for a pool without times.
        excludes_seen: whether items that the user reviewed up to the target are excluded.
    """

    pool: Path
    before: int | None
    window: int
    length: int
    excludes_seen: bool
    seed: int
    stream: int

    def draw(self, events: Events, items: np.ndarray, keys: np.ndarray, targets: np.ndarray) -> Drawn:
        """The negatives of some targets.

        Args:
            items: int32 [reviews], ids.
            keys: int64 [users], a key of each user that does not depend on the partition.
            targets: int64 [n], places of the targets among the reviews.
        """
        draw = _Draw(self, load_pool(self.pool), events, items, keys, targets)
        item, cat, exists = draw.negatives()
        return Drawn(item, cat, *draw.histories(), exists)


@dataclass(frozen=True)
class Drawn:
    """The negatives of n targets.

    Attributes:
        item: int32 [n].
        cat: int32 [n].
        items: int32 [n, 2, length], the negative histories of a target's two samples.
        cats: int32 [n, 2, length].
        exists: bool [n], False where the user has seen all items there are.
    """

    item: np.ndarray
    cat: np.ndarray
    items: np.ndarray
    cats: np.ndarray
    exists: np.ndarray


class _Draw:
    def __init__(
        self, chosen: Negatives, pool: Pool, events: Events, items: np.ndarray, keys: np.ndarray, targets: np.ndarray
    ) -> None:
        self._chosen, self._pool, self._events = chosen, pool, events
        self._keys, self._targets = keys, targets
        times = pool.times
        limit = len(pool.reviews)
        if len(times) and chosen.before is not None:
            limit = pool.until(chosen.before)
        self._limit = limit
        if len(times):
            at = events.times
            middle = np.minimum(np.searchsorted(times, at), limit)
            low = np.searchsorted(times, at - chosen.window)
            high = np.minimum(np.searchsorted(times, at + chosen.window, side="right"), limit)
            self._low = np.maximum(np.minimum(low, middle - _NEAREST // 2), 0)
            self._high = np.minimum(np.maximum(high, middle + _NEAREST // 2), limit)
        else:
            self._low, self._high = np.zeros(len(items), np.int64), np.full(len(items), limit, np.int64)
        # Each (user, item) as one number, ascending, and the place of its first review.
        self._first = np.unique(events.owner << 32 | items, return_index=True) if chosen.excludes_seen else None

    def negatives(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Item and category of each target's negative, and whether there is one."""
        pool, count = self._pool, self._chosen.length + 1
        # The sample of copy 1 is the negative; its first draw is the item.
        drawn = self._pairs(self._targets, np.full(len(self._targets), count, np.int64), 1)[:, 0]
        exists = np.ones(len(self._targets), bool)
        if self._first is not None:
            pending = np.flatnonzero(self._is_seen(self._targets, pool.items[drawn]))
            for number in range(_TRIES):
                if not len(pending):
                    break
                reviews = self._targets[pending]
                drawn[pending] = self._pairs(reviews, np.full(len(pending), 2 * count + number, np.int64), 1)[:, 0]
                pending = pending[self._is_seen(reviews, pool.items[drawn[pending]])]
            for row in pending.tolist():
                pair = self._unseen(row, 2 * count + _TRIES)
                exists[row] = pair is not None
                drawn[row] = drawn[row] if pair is None else pair
        return pool.items[drawn], pool.categories[drawn], exists

    def histories(self) -> tuple[np.ndarray, np.ndarray]:
        """The negative histories of both samples of each target.

        Each entry is drawn around the time of the review that it is aligned with; before the user's first review,
        where it pads, around the target's.
        """
        length, pool = self._chosen.length, self._pool
        rows = np.repeat(self._targets, 2)
        copies = np.tile(np.arange(2), len(self._targets))
        aligned = rows[:, None] + np.arange(-length, 0)
        aligned = np.where(aligned >= self._events.offsets[self._events.owner[rows]][:, None], aligned, rows[:, None])
        drawn = self._pairs(rows, copies * (length + 1) + 1, length, aligned)
        shape = (len(self._targets), 2, length)
        return pool.items[drawn].reshape(shape), pool.categories[drawn].reshape(shape)

    def _pairs(
        self, reviews: np.ndarray, first: np.ndarray, count: int, windows: np.ndarray | None = None
    ) -> np.ndarray:
        """Pairs drawn from the windows of some reviews: int64 [n, count]."""
        events = self._events
        windows = reviews[:, None] if windows is None else windows
        low, high = self._low[windows], self._high[windows]
        keys, positions = self._keys[events.owner[reviews]], events.position[reviews]
        random = draws(self._chosen.seed, self._chosen.stream, keys, positions, first, count)
        sums = self._pool.weights
        if len(sums):
            wanted = sums[low] + (sums[high] - sums[low]) * (random >> np.uint64(11)) * 2.0**-53
            # Rounding may reach the end of the window.
            at = np.minimum(np.searchsorted(sums, wanted, side="right"), high) - 1
        else:
            at = low + (random % (high - low).astype(np.uint64)).astype(np.int64)
        return self._pool.reviews[at].astype(np.int64)

    def _is_seen(self, reviews: np.ndarray, items: np.ndarray) -> np.ndarray:
        """Whether the user has reviewed the item up to a target; ids of unknown items tell nothing."""
        assert self._first is not None
        known, first = self._first
        wanted = self._events.owner[reviews] << 32 | items
        at = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return (known[at] == wanted) & (first[at] <= reviews) & (items != NVTABULAR_UNKNOWN)

    def _unseen(self, row: int, number: int) -> int | None:
        """A pair drawn from the unseen ones of the window, else of all reviews; None if there is none."""
        review = self._targets[row : row + 1]
        for low, high in ((int(self._low[review[0]]), int(self._high[review[0]])), (0, self._limit)):
            pairs = self._pool.reviews[low:high]
            unseen = pairs[~self._is_seen(np.repeat(review, len(pairs)), self._pool.items[pairs])]
            if len(unseen):
                keys = self._keys[self._events.owner[review]]
                first = np.full(1, number, np.int64)
                positions = self._events.position[review]
                random = draws(self._chosen.seed, self._chosen.stream, keys, positions, first, 1)
                return int(unseen[int(random[0, 0] % np.uint64(len(unseen)))])
        return None
