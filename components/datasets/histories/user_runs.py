"""Reviews sorted by user on disk: runs whose key is a 64-bit hash of the user.

The hash, and so the partitioning, depends only on the users' names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from components.workflows.key_runs import KeyRuns

# A user, an item and a time in seconds, by the names of the published reviews.
REVIEW = pa.schema([("reviewerID", pa.string()), ("asin", pa.string()), ("unixReviewTime", pa.int64())])


def user_runs(folder: Path) -> KeyRuns:
    """Runs of the schema ``REVIEW`` after a column user_key."""
    return KeyRuns(folder, "user_key", REVIEW, lambda reviews: hashes_of(reviews["reviewerID"]))


def hashes_of(names: pa.ChunkedArray) -> np.ndarray:
    """A 64-bit hash of each name (pandas' SipHash): int64, the same on every machine.

    Ten million users collide with probability 3e-6; ``histories`` rejects collisions.
    """
    encoded = names.combine_chunks().dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    return pd.util.hash_array(distinct, categorize=False).view(np.int64)[encoded.indices.to_numpy()]
