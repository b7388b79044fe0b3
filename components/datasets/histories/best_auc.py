"""The best possible AUC on synthetic reviews: that of a scorer which knows the interests of every user.

    p(c) = STAY [c = r] + (1 - STAY) / k * #{current interests = c}
    p(item) / q(item) = (1 - STRAY) p(c) / share(c) + STRAY

r is the interest of the review before, k the number of current interests, c the item's category, share(c) the
popularity of the category, and q the popularity of the item, by which negatives are drawn. Where seen items are
excluded, both distributions are those of the unseen items.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from components.datasets.histories.synthetic import STAY, STRAY, Catalogue, Interests, catalogue_of, reviews_of
from components.metrics import auc_of_histograms

# Users to average over: the result is then exact to about 0.001.
_USERS = 500


def best_auc(generation: Any, sampling: Any) -> float | None:
    """The AUC that no model surpasses but by chance, an expectation over targets and negatives; None if unknown."""
    if not generation.are_reviews:
        return None
    if generation.synthetic_shuffled_labels:
        return 0.5
    catalogue = catalogue_of(generation)
    reviews, interests = reviews_of(generation, catalogue, 0, min(_USERS, generation.synthetic_users))
    if interests is None or catalogue.shelf is not None:
        return None
    parts = [
        _weights(catalogue, reviews.item[mine], interests, mine, sampling.excludes_seen)
        for mine in _of_each_user(reviews.user)
        if len(mine) >= sampling.shortest_sequence_for_user
    ]
    if not parts:
        return None
    score, positive, negative = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(score, kind="stable")
    first = np.flatnonzero(np.diff(score[order], prepend=-np.inf) > 0)
    return auc_of_histograms(*(np.add.reduceat(weights[order], first) for weights in (positive, negative)))[0]


def _of_each_user(users: np.ndarray) -> list[np.ndarray]:
    """The places of each user's reviews, oldest first."""
    order = np.argsort(users, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(users[order])) + 1)


def _weights(
    catalogue: Catalogue, items: np.ndarray, interests: Interests, mine: np.ndarray, excludes_seen: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores of the categories for each target of a user, and their probabilities as target and as negative.

    Args:
        items: int64 [reviews], of the user, oldest first.
        excludes_seen: whether targets and negatives are items that are new to the user.
    """
    share, popularity = catalogue.category_share, np.diff(catalogue.cumulative, prepend=0.0)
    is_new = np.zeros(len(items), bool)
    is_new[np.unique(items, return_index=True)[1]] = True
    before, targets = interests.category[mine[:-1]], mine[1:]
    probability = np.zeros((len(targets), len(share)))
    probability[np.arange(len(targets)), before] = STAY
    for slot in range(interests.row.shape[1]):
        current = (slot >= interests.first[targets]) & (slot < interests.first[targets] + interests.at_a_time[targets])
        rows, category = np.flatnonzero(current), interests.row[interests.owner[targets[current]], slot]
        np.add.at(probability, (rows, category), (1 - STAY) / interests.at_a_time[targets[current]])
    lift = (1 - STRAY) * probability / share + STRAY
    unseen = np.ones_like(lift)
    if excludes_seen:
        seen = np.zeros_like(lift)
        first = is_new[:-1]
        seen[np.flatnonzero(first), catalogue.category[items[:-1][first]]] = popularity[items[:-1][first]]
        unseen = 1 - np.minimum(np.cumsum(seen, 0) / share, 1)
    positive, negative = lift * share * unseen, share * unseen
    left = positive.sum(1, keepdims=True), negative.sum(1, keepdims=True)
    counted = (left[0][:, 0] > 0) & (is_new[1:] if excludes_seen else True)
    score = lift * left[1] / np.maximum(left[0], np.finfo(float).tiny)
    score, positive, negative = (each[counted].ravel() for each in (score, positive / left[0], negative / left[1]))
    return score, positive, negative
