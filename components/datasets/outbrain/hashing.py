"""Values to buckets: 1 to the number of buckets, 0 for a missing value.

An integer is its own hash, so dense ids, such as topics, do not collide. Text is hashed with SipHash, which is the same
on every machine.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

# A missing id; valid ids are 0 or larger.
MISSING = -1
_63_BITS = np.uint64(2**63 - 1)


def to_buckets(ids: np.ndarray, buckets: int) -> np.ndarray:
    """Buckets of ids.

    Args:
        ids: int64 [n], or MISSING.
        buckets: number of buckets.

    Returns:
        int32 [n].
    """
    return np.where(ids < 0, 0, ids % buckets + 1).astype(np.int32)


def ids_of(column: pa.ChunkedArray) -> np.ndarray:
    """A column of whole numbers as int64, MISSING in place of nulls."""
    return pc.fill_null(column, MISSING).to_numpy()


def text_hashes(column: pa.ChunkedArray, first: int = 0) -> np.ndarray:
    """Hashes of texts.

    Args:
        column: strings.
        first: leading characters to hash; 0 is all.

    Returns:
        int64 [n], 0 or larger, MISSING in place of nulls.
    """
    encoded = column.combine_chunks().dictionary_encode()
    texts = pc.utf8_slice_codeunits(encoded.dictionary, 0, first) if first else encoded.dictionary
    hashed = pd.util.hash_array(texts.to_numpy(zero_copy_only=False), categorize=False) & _63_BITS
    hashes = np.append(hashed.astype(np.int64), MISSING)
    return hashes[pc.fill_null(encoded.indices, len(texts)).to_numpy()]
