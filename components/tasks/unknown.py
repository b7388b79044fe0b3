"""Tells the samples of unknown users apart, who share one id.

Users without training samples have the vocabulary's unknown id. Taken for one user, they would be one cluster of an
interval and one group of a metric, of up to half of the test split.
"""

from __future__ import annotations

import numpy as np


def oldest_two(histories: np.ndarray) -> np.ndarray:
    """A key of the two oldest items of each history, which stay the same while a user's history grows.

    Args:
        histories: ids of items, oldest first, left-padded with 0, ``[n, length]``.

    Returns:
        int64 ``[n]``, 0 for an empty history.
    """
    rows, length = np.arange(len(histories)), histories.shape[1]
    first = np.argmax(histories != 0, axis=1)
    second = np.where(first + 1 < length, histories[rows, np.minimum(first + 1, length - 1)], 0)
    return histories[rows, first].astype(np.int64) << 32 | second


def told_apart(ids: np.ndarray, unknown: int, keys: np.ndarray) -> np.ndarray:
    """The ids, with another one for each user among the unknown.

    Two samples of unknown users are of one user if their keys are equal; one without a key is of a user of its own. Two
    users who began with the same two items are taken for one, and one whose oldest items were cut off for several.

    Args:
        ids: of the users, ``[n]``.
        unknown: the id of unknown users.
        keys: of :func:`oldest_two`, ``[n]``.

    Returns:
        int64 ``[n]``; new ids are above all given ones.
    """
    separated, strange = ids.astype(np.int64), ids == unknown
    if strange.any():
        own = np.where(keys == 0, -1 - np.arange(len(keys)), keys)
        separated[strange] = int(ids.max()) + 1 + np.unique(own[strange], return_inverse=True)[1]
    return separated
