"""Coverage, novelty and diversity of lists, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from components.metrics import ListFigures

COUNTS = np.array([4.0, 2.0, 1.0, 1.0, 0.0])
CATEGORIES = np.array([7, 7, 8, 9, 9])
LISTS = np.array([[0, 1, 2], [0, 3, -1], [4, -1, -1], [-1, -1, -1]])


def test_the_figures_are_those_by_hand_in_any_number_of_batches() -> None:
    together, apart = (ListFigures(5, COUNTS, CATEGORIES) for _ in range(2))
    together.add(LISTS)
    for each in LISTS:
        apart.add(each[np.newaxis])
    for figures in (together.figures(), apart.figures()):
        assert figures["coverage"] == 1.0
        # Shares of 1/2, 1/4, 1/8, 1/2 and 1/8; item 4 was never chosen.
        assert figures["novelty"] == pytest.approx((1 + 2 + 3 + 1 + 3) / 5)
        # Two of the first list's three pairs, and the only one of the second.
        assert figures["diversity"] == pytest.approx((2 / 3 + 1) / 2)


def test_lists_of_the_same_item_cover_one_of_all() -> None:
    figures = ListFigures(5, COUNTS, CATEGORIES)
    figures.add(np.zeros((9, 1), np.int64))
    assert figures.figures() == {"coverage": 0.2, "novelty": 1.0}


def test_what_is_not_known_has_no_figure() -> None:
    figures = ListFigures(5)
    figures.add(LISTS[:2])
    assert figures.figures() == {"coverage": 0.8}
    assert ListFigures(5, COUNTS, CATEGORIES).figures() == {"coverage": 0.0}
