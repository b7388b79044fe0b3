"""Positions of ids in a sorted array."""

from __future__ import annotations

from typing import Any

# A dense table beats binary search, unless the ids are sparser than this.
_SPARSEST = 16
_SMALL = 1 << 20


class Positions:
    """Finds ids in an array.

    Args:
        xp: numpy or cupy.
        ids: int64 [n], sorted, unique, 0 or larger.
    """

    def __init__(self, xp: Any, ids: Any) -> None:
        self._xp, self._ids, self._table = xp, ids, None
        largest = int(ids[-1]) if len(ids) else 0
        if largest < _SPARSEST * len(ids) + _SMALL:
            self._table = xp.full(largest + 1, -1, xp.int32)
            self._table[ids] = xp.arange(len(ids), dtype=xp.int32)

    def of(self, values: Any) -> Any:
        """The position of each value among the ids, -1 if absent: int64 [n]."""
        xp = self._xp
        if not len(self._ids):
            return xp.full(len(values), -1, xp.int64)
        if self._table is not None:
            inside = (values >= 0) & (values < len(self._table))
            return xp.where(inside, self._table[xp.where(inside, values, 0)], -1).astype(xp.int64)
        positions = xp.minimum(xp.searchsorted(self._ids, values), len(self._ids) - 1)
        return xp.where(self._ids[positions] == values, positions, -1)
