"""Items that appeared since the training: what the model expects of their category tells of them."""

from __future__ import annotations

import numpy as np

# Added to the recent events of every item, so that one without any has a share.
_LEAST = 0.5


class Newcomers:
    """Scores of new candidates from those of the known ones of their categories.

        s(u, n) = ln(sum over the known candidates j of the category of exp(s(u, j))) + ln((c(n) + 1/2) / c)

    ``c(n)`` counts the recent events of the new candidate, ``c`` sums those of the known candidates of its category,
    with 1/2 for each: without recent events a new candidate is as likely as their mean.

    Args:
        categories: of the candidates, ids ``[N]``, -1 where it is not known.
        known: bool ``[N]``, candidates whose score is trained.
        new: bool ``[N]``, candidates that the model does not know.
        counts: recent events of the candidates, ``[N]``.

    Attributes:
        places: of the new candidates that have a known one in their category, int64, ascending.
    """

    def __init__(self, categories: np.ndarray, known: np.ndarray, new: np.ndarray, counts: np.ndarray) -> None:
        counts, told = counts + _LEAST, known & (categories >= 0)
        of_category = np.bincount(categories[told], counts[told])
        listed = new & np.isin(categories, categories[told])
        self.places = np.flatnonzero(listed)
        self._groups = []
        for category in np.unique(categories[listed]):
            own = np.flatnonzero(listed & (categories == category))
            members = np.flatnonzero(known & (categories == category))
            self._groups.append((own, members, np.log(counts[own] / of_category[category])))

    def score(self, scores: np.ndarray) -> None:
        """Replaces the scores of the new candidates, ``[users, N]``; -inf where a category has no candidate left."""
        for own, members, shares in self._groups:
            known = scores[:, members]
            largest = known.max(1, keepdims=True)
            with np.errstate(invalid="ignore", divide="ignore"):
                mass = largest + np.log(np.exp(known - largest).sum(1, keepdims=True))
            scores[:, own] = np.where(np.isfinite(largest), mass, -np.inf) + shares


class NewByVector:
    """Scores of new candidates that have the vector of what is known of them, by how popular they have become in their
    category.

        s(u, n) = u . v + ln((c(n) + 1/2) / (m + 1/2))

    ``c(n)`` counts the recent events of the new candidate, ``m`` is the mean over the candidates of its category. The
    vector v, of the category and the columns, is learned as that of an item as popular as the mean.

    Args:
        categories: of the candidates, ids ``[N]``; those without one share -1.
        new: bool ``[N]``, candidates that have such a vector.
        counts: recent events of the candidates, ``[N]``.
    """

    def __init__(self, categories: np.ndarray, new: np.ndarray, counts: np.ndarray) -> None:
        self._places = np.flatnonzero(new)
        _, group = np.unique(categories, return_inverse=True)
        means = np.bincount(group, counts) / np.bincount(group)
        self._shares = np.log((counts[self._places] + _LEAST) / (means[group[self._places]] + _LEAST))

    def score(self, scores: np.ndarray) -> None:
        """Corrects the scores of the new candidates, ``[users, N]``."""
        scores[:, self._places] += self._shares.astype(scores.dtype)
