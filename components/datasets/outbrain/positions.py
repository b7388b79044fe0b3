"""Positions of ids in a sorted array."""

from __future__ import annotations

import numpy as np

# A dense table beats binary search, unless the ids are sparser than this.
_SPARSEST = 16
_SMALL = 1 << 20


class Positions:
    """Finds ids in an array.

    Args:
        ids: int64 [n], sorted, unique, 0 or larger.
    """

    def __init__(self, ids: np.ndarray) -> None:
        self._ids, self._table = ids, None
        largest = int(ids[-1]) if len(ids) else 0
        if largest < _SPARSEST * len(ids) + _SMALL:
            self._table = np.full(largest + 1, -1, np.int32)
            self._table[ids] = np.arange(len(ids), dtype=np.int32)

    def of(self, values: np.ndarray) -> np.ndarray:
        """The position of each value among the ids, -1 if absent: int64 [n]."""
        if not len(self._ids):
            return np.full(len(values), -1, np.int64)
        if self._table is not None:
            inside = (values >= 0) & (values < len(self._table))
            return np.where(inside, self._table[np.where(inside, values, 0)], -1).astype(np.int64)
        positions = np.minimum(np.searchsorted(self._ids, values), len(self._ids) - 1)
        return np.where(self._ids[positions] == values, positions, -1)
