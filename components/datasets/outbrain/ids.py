"""Ids: texts as ids, buckets of ids, and positions of ids in a sorted array.

Buckets are 1 to their number, 0 for a missing value. An integer is its own hash, so dense ids, such as topics, do not
collide. Text is hashed with SipHash, which is the same on every machine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

# A missing id; valid ids are 0 or larger.
MISSING = -1
_63_BITS = np.uint64(2**63 - 1)
# A dense table beats binary search, unless the ids are sparser than this.
_SPARSEST = 16
_SMALL = 1 << 20


def to_buckets(ids: np.ndarray, buckets: int) -> np.ndarray:
    """Buckets, int32 [n], of ids, int64 [n]; 0 for MISSING."""
    return np.where(ids < 0, 0, ids % buckets + 1).astype(np.int32)


def ids_of(column: pa.ChunkedArray) -> np.ndarray:
    """A column of whole numbers as int64, MISSING in place of nulls."""
    return pc.fill_null(column, MISSING).to_numpy()


def text_hashes(column: pa.ChunkedArray, first: int = 0) -> np.ndarray:
    """Hashes of texts, int64 [n]: 0 or larger, MISSING in place of nulls.

    Args:
        first: leading characters to hash; 0 is all.
    """
    encoded = column.combine_chunks().dictionary_encode()
    texts = pc.utf8_slice_codeunits(encoded.dictionary, 0, first) if first else encoded.dictionary
    hashed = pd.util.hash_array(texts.to_numpy(zero_copy_only=False), categorize=False) & _63_BITS
    hashes = np.append(hashed.astype(np.int64), MISSING)
    return hashes[pc.fill_null(encoded.indices, len(texts)).to_numpy()]


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
