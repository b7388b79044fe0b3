"""How tasks of users' histories group samples: by the length of the history, and by popularity."""

from __future__ import annotations

import numpy as np

HISTORY_BOUNDS = (5, 10, 20, 50, 99)
POPULARITY_GROUPS = 5
# Name of a column that the evaluation keeps where a vocabulary grew: 1 for samples with an id that is new, else 0.
ADMITTED = "newly_admitted"
ADMITTED_TITLES = {1: "with newly admitted ids", 0: "all others"}


def popularity_bounds(values: np.ndarray) -> list[int]:
    """Upper bounds of groups: 0 first, then groups of about equal size; equal values share a group."""
    occurring = values[values > 0]
    if not len(occurring):
        return [0]
    shares = np.arange(1, POPULARITY_GROUPS) / POPULARITY_GROUPS
    return [0, *np.unique(np.quantile(occurring, shares, method="lower")).astype(int).tolist()]
