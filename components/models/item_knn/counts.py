"""Counts of pairs of items in histories, and the nearest items of each item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# Pairs in memory before equal ones are summed.
_PAIRS = 1 << 23
# Stands before each item once per occurrence, so that its pairs count how often items occur.
BEGINNING = 0


class Pairs(NamedTuple):
    """Pairs of an item and a later one, ``[n]`` each; those of BEGINNING count the occurrences of the second item."""

    before: np.ndarray
    after: np.ndarray
    times: np.ndarray


class Nearest(NamedTuple):
    """The neighbours of each item.

    Attributes:
        items: int64 ``[rows, K]``, the nearest first, 0 where there are fewer.
        shares: float32 ``[rows, K]``, which sum to 1 over an item's neighbours; 0 where there are fewer.
        units: float32 ``[rows]``, the share of a pair that counts 1, of a neighbour whose popularity is 1; 0 without
            neighbours.
        popularity: float32 ``[rows]``, the share of each item in all occurrences.
    """

    items: np.ndarray
    shares: np.ndarray
    units: np.ndarray
    popularity: np.ndarray


def count_pairs(windows: Iterable[np.ndarray], rows: int, distance: int) -> Pairs:
    """Counts the pairs of items that follow each other within a distance.

        count(i, j) = sum over the times that j is d places after i, d <= distance: 1 / d

    Args:
        windows: ids of items, oldest first, 0 for none, ``[n, length]`` each.
        rows: one above the largest id.
    """
    keys, counts, largest = [np.zeros(0, np.int64)], [np.zeros(0)], _PAIRS
    for window in windows:
        ids = window.astype(np.int64)
        keys.append(ids[ids > 0])
        counts.append(np.ones(len(keys[-1])))
        for apart in range(1, min(distance, ids.shape[1] - 1) + 1):
            before, after = ids[:, :-apart], ids[:, apart:]
            is_pair = (before > 0) & (after > 0) & (before != after)
            keys.append(before[is_pair] * rows + after[is_pair])
            counts.append(np.full(len(keys[-1]), 1 / apart))
        if sum(map(len, keys)) > largest:
            key, count = _summed(np.concatenate(keys), np.concatenate(counts))
            # As many pairs again before the next sum, so that each is summed a few times at most.
            keys, counts, largest = [key], [count], max(_PAIRS, 2 * len(key))
    key, count = _summed(np.concatenate(keys), np.concatenate(counts))
    return Pairs(key // rows, key % rows, count)


def nearest(pairs: Pairs, rows: int, neighbours: int, backward: float, discount: float) -> Nearest:
    """The items that are counted most often near each item.

        near(i, j) = (count(i, j) + backward * count(j, i)) / popularity(j)^discount

    Args:
        pairs: equal ones are summed.
        rows: one above the largest id.
        neighbours: K, items to keep of an item.
    """
    is_item = pairs.before == BEGINNING
    occurrences = np.bincount(pairs.after[is_item], pairs.times[is_item], minlength=rows)
    popularity = occurrences / max(occurrences.sum(), 1)
    before, after, count = (values[~is_item] for values in pairs)
    key, near = _summed(
        np.concatenate([before * rows + after, after * rows + before]), np.concatenate([count, backward * count])
    )
    owner, item = key // rows, key % rows
    near = near / popularity[item] ** discount
    order = np.lexsort((item, -near, owner))
    order = order[near[order] > 0]
    owner, item, near = owner[order], item[order], near[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    is_kept = place < neighbours
    owner, item, near, place = owner[is_kept], item[is_kept], near[is_kept], place[is_kept]
    totals = np.bincount(owner, near, minlength=rows)
    items, shares = np.zeros((rows, neighbours), np.int64), np.zeros((rows, neighbours), np.float32)
    items[owner, place], shares[owner, place] = item, near / totals[owner]
    units = np.divide(1, totals, out=np.zeros(rows), where=totals > 0)
    return Nearest(items, shares, units.astype(np.float32), popularity.astype(np.float32))


def _summed(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, ascending, and the sum of the counts of each."""
    distinct, place = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(place, counts, minlength=len(distinct))
