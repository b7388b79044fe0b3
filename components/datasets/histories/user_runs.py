"""Reviews sorted by user on disk: runs whose key is a 64-bit hash of the user.

The hash, and so the partitioning, depends only on the users' names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from components.errors import KfrecError
from components.workflows.key_runs import KeyRuns

# A user, an item and a time in nanoseconds since 1970, by the names of the published reviews.
REVIEW = pa.schema([("reviewerID", pa.string()), ("asin", pa.string()), ("unixReviewTime", pa.int64())])


SECOND = 10**9
# A profiled time's seconds per tick.
TICK = 1e-9


def in_nanoseconds(times: np.ndarray, per_second: int, column: str) -> np.ndarray:
    """Whole numbers of a unit as nanoseconds, int64 ``[n]``.

    Args:
        times: int64 ``[n]``.
        per_second: how many of the unit a second has.
        column: name, for messages.

    Raises:
        KfrecError: a time before 1678 or after 2261.
    """
    factor = SECOND // per_second
    far = np.abs(times.astype(np.float64)) * factor > np.iinfo(np.int64).max
    if far.any():
        raise KfrecError(f"column {column} holds {times[far][0]}, which is no time between 1678 and 2261; correct it")
    return times * factor


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
