"""The population stability index."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Shares below this one count as it: an empty bin would make the index infinite.
LEAST_SHARE = 1e-4


def stability_index(shares: Sequence[float] | np.ndarray, reference: Sequence[float] | np.ndarray) -> float:
    """How far a distribution has moved from another one: the population stability index (PSI).

    PSI = sum over bins of (p - q) ln(p / q), with p and q the shares of a bin; it is symmetric, and 0 for equal shares.
    Below 0.1 is usually read as stable, above 0.25 as a shift that calls for retraining.

    Args:
        shares: shares of the bins, which sum to 1.
        reference: likewise, of the same bins.
    """
    p, q = (np.maximum(np.asarray(each, np.float64), LEAST_SHARE) for each in (shares, reference))
    return float(((p - q) * np.log(p / q)).sum())
