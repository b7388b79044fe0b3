"""Tells the samples of unknown users apart, who share one id.

Users without training samples have the vocabulary's unknown id. Taken for one user, they would be one cluster of an
interval and one group of a metric, of up to half of the test split.
"""

from __future__ import annotations

import numpy as np

_SECOND = 2**32 - 1  # the bits of the second item


def oldest_two(histories: np.ndarray) -> np.ndarray:
    """A key of the two oldest items of each history, which stay the same while a user's history grows.

    Args:
        histories: ids of items, oldest first, left-padded with 0, ``[n, length]``; with the target as the newest item
            where the user chose it, a user's first sample has both.

    Returns:
        int64 ``[n]``, 0 for an empty history; the lower half is 0 for one of one item.
    """
    rows, length = np.arange(len(histories)), histories.shape[1]
    first = np.argmax(histories != 0, axis=1)
    second = np.where(first + 1 < length, histories[rows, np.minimum(first + 1, length - 1)], 0)
    return histories[rows, first].astype(np.int64) << 32 | second


def told_apart(ids: np.ndarray, unknown: int, keys: np.ndarray) -> np.ndarray:
    """The ids, with another one for each user among the unknown.

    Two samples of unknown users are of one user if their keys are equal; one without a key is of a user of its own. A
    sample of one item, such as the drawn target after a user's first item, goes to one of the users who began with that
    item, in turn: nothing but the item tells its user, so these are alike to any model. Two users who began with the
    same two items are taken for one, and one whose oldest items were cut off for several.

    Args:
        ids: of the users, ``[n]``.
        keys: of ``oldest_two``, ``[n]``.

    Returns:
        int64 ``[n]``; new ids are above all given ones.
    """
    separated, strange = ids.astype(np.int64), ids == unknown
    if strange.any():
        own = np.where(keys == 0, -1 - np.arange(len(keys)), keys)[strange]
        separated[strange] = int(ids.max()) + 1 + np.unique(_with_second(own), return_inverse=True)[1]
    return separated


def _with_second(keys: np.ndarray) -> np.ndarray:
    """Replaces the keys of one item by those of two items with the same first one, in turn, if there are any."""
    single = np.flatnonzero((keys > 0) & (keys & _SECOND == 0))
    whole = np.unique(keys[(keys > 0) & (keys & _SECOND != 0)])
    items = keys[single]
    begin, end = (np.searchsorted(whole, items + after) for after in (0, _SECOND))
    order = np.argsort(items, kind="stable")
    _, starts, counts = np.unique(items[order], return_index=True, return_counts=True)
    turn = np.empty(len(single), np.int64)
    turn[order] = np.arange(len(single)) - np.repeat(starts, counts)
    known = end > begin
    joined = keys.copy()
    joined[single[known]] = whole[(begin + turn % np.maximum(end - begin, 1))[known]]
    return joined
