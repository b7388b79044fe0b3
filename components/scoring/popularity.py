"""What is listed where a model has learned nothing: popular items, of the category where that is known."""

from __future__ import annotations

import numpy as np

# Added to the scores of a category, so that its items come before all others.
_AHEAD = 50.0


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
