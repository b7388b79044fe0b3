"""The best candidates of many users at once, of a block of scores wherever these come from."""

from __future__ import annotations

import numpy as np


def best_of(scores: np.ndarray, top: int, behind: np.ndarray, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The best candidates of each user, best first; ties keep the order of the candidates.

    Args:
        scores: ``[users, N]``; -inf for what is no candidate of a user.
        top: largest number of candidates of a user, from 1.
        behind: bool ``[N]``, candidates after all others, those of a higher ``level`` first.
        level: float64 ``[N]``.

    Returns:
        Rows and columns of ``scores``, int64 ``[n]`` each, by user and then by rank.
    """
    size = scores.shape[1]
    ahead = np.where(behind, scores.dtype.type(-np.inf), scores) if behind.any() else scores
    least = np.full((len(scores), 1), -np.inf, scores.dtype)
    if top < size:
        # Sorting all candidates takes most of the time of a cheap model.
        least = np.partition(ahead, size - top, axis=1)[:, size - top : size - top + 1]
    chosen = ahead >= least
    short = least[:, 0] == -np.inf
    chosen[short] = scores[short] > -np.inf
    # Much faster than np.nonzero of two axes.
    rows, places = np.divmod(np.flatnonzero(chosen), max(size, 1))
    order = np.lexsort((-scores[rows, places], -level[places], behind[places], rows))
    rows, places = rows[order], places[order]
    kept = ranks_in(rows) <= top
    return rows[kept], places[kept]


def best_of_each(
    scores: np.ndarray, top: int, behind: np.ndarray, level: np.ndarray, groups: np.ndarray, most: int
) -> tuple[np.ndarray, np.ndarray]:
    """As ``best_of``, but with at most ``most`` candidates of a group in a list.

    Args:
        groups: of the candidates, int64 ``[N]``.
    """
    depth, users, found = top, np.arange(len(scores)), [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    while len(users):
        depth = min(4 * depth, scores.shape[1])
        rows, places = best_of(scores[users], depth, behind, level)
        by_group = np.lexsort((groups[places], rows))
        one_group = (rows * (groups.max(initial=0) + 1) + groups[places])[by_group]
        kept = np.sort(by_group[ranks_in(one_group) <= most])
        rows, places = rows[kept], places[kept]
        # A list that is short may go on further behind.
        full = np.bincount(rows, minlength=len(users)) >= top if depth < scores.shape[1] else np.ones(len(users), bool)
        own = full[rows] & (ranks_in(rows) <= top)
        found.append((users[rows[own]], places[own]))
        users = users[~full]
    rows, places = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort(rows, kind="stable")
    return rows[order], places[order]


def ranks_in(groups: np.ndarray) -> np.ndarray:
    """The rank of each element among the equal ones, from 1: int64 ``[n]``.

    Args:
        groups: ``[n]``, equal ones together.
    """
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    sizes = np.diff(np.append(starts, len(groups)))
    return 1 + np.arange(len(groups)) - np.repeat(starts, sizes)
