"""What is listed where a model has learned nothing: new items by their category, and popular ones."""

from __future__ import annotations

import numpy as np

# Added to the recent events of every item, so that one without any has a share.
_LEAST = 0.5
# Added to the scores of a category, so that its items come before all others.
_AHEAD = 50.0


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


class Popularity:
    """How often candidates and their categories were chosen.

    Args:
        counts: of the candidates, ``[N]``.
        categories: of the candidates, ids ``[N]``; None if they are not known.

    Attributes:
        of_category: how often the candidates of each candidate's category were chosen, float64 ``[N]``; 0 without
            categories.
    """

    def __init__(self, counts: np.ndarray, categories: np.ndarray | None = None) -> None:
        self._counts, self._categories = counts, categories
        self.of_category: np.ndarray = np.zeros(len(counts))
        if categories is not None:
            _, places = np.unique(categories, return_inverse=True)
            self.of_category = np.bincount(places, counts, minlength=1)[places]

    def scores(self, seen: np.ndarray) -> np.ndarray:
        """The logarithm of each candidate's share of the choices, float64 ``[N]``; items of the history's categories
        come before all others.

        Args:
            seen: places of the history's items that are candidates.
        """
        chosen = self._counts[self._counts > 0]
        least = chosen.min() if len(chosen) else 1.0
        shares = np.maximum(self._counts, least / 2) / max(chosen.sum(), least)
        scores = np.log(shares)
        if self._categories is not None:
            scores[np.isin(self._categories, self._categories[seen])] += _AHEAD
        return scores
