"""What lists are beyond accurate: their coverage of the items, their novelty and their diversity.

coverage  = distinct items in all lists / items
novelty   = mean of -log2(share of the item among all choices) over the listed items, in bits
diversity = mean over lists of the share of pairs of listed items of different categories
"""

from __future__ import annotations

import numpy as np


class ListFigures:
    """Sums over lists, which are added in any number of batches.

    Args:
        items: how many can be listed.
        counts: how often each was chosen, ``[items]``; None if unknown.
        categories: of the items, ids ``[items]``; None if unknown.
    """

    def __init__(self, items: int, counts: np.ndarray | None = None, categories: np.ndarray | None = None) -> None:
        self._listed = np.zeros(items, np.int64)
        self._counts, self._categories = counts, categories
        self._shares, self._lists = 0.0, 0

    def add(self, lists: np.ndarray) -> None:
        """Adds lists of items' places, ``[lists, top]``, -1 after the last one."""
        is_listed = lists >= 0
        self._listed += np.bincount(lists[is_listed], minlength=len(self._listed))
        if self._categories is None:
            return
        owner = is_listed.nonzero()[0]
        of_categories = np.stack([owner, self._categories[lists[is_listed]]], 1)
        (owners, _), sizes = (each.T for each in np.unique(of_categories, axis=0, return_counts=True))
        alike = np.bincount(owners, sizes * (sizes - 1) / 2, minlength=len(lists))
        lengths = is_listed.sum(1)
        pairs = lengths * (lengths - 1) / 2
        self._shares += float((1 - alike[pairs > 0] / pairs[pairs > 0]).sum())
        self._lists += int((pairs > 0).sum())

    def figures(self) -> dict[str, float]:
        """Coverage, novelty and diversity by name, as far as counts and categories tell them.

        Items that were never chosen have no share, and do not count in novelty; nor do lists of one item in diversity.
        """
        found = {"coverage": float((self._listed > 0).mean())} if len(self._listed) else {}
        if self._counts is not None:
            chosen = (self._counts > 0) & (self._listed > 0)
            if chosen.any():
                bits = np.log2(self._counts.sum()) - np.log2(self._counts[chosen])
                found["novelty"] = float(np.average(bits, weights=self._listed[chosen]))
        if self._lists:
            found["diversity"] = self._shares / self._lists
        return found
