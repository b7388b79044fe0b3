"""New items: a share of their category's likelihood, as they are popular in it."""

from __future__ import annotations

import numpy as np
import pytest

from components.scoring.newcomers import NewByVector, Newcomers

# Two known items of category 0 and one of 1; new ones of 0, of 0 without an event, of 2 and of no category.
CATEGORIES = np.array([0, 0, 1, 0, 0, 2, -1])
KNOWN = np.array([True, True, True, False, False, False, False])
COUNTS = np.array([6, 2, 5, 4, 0, 9, 9])


def scored(scores: list[float]) -> np.ndarray:
    block = np.array([scores + [7.0] * 4])
    found = Newcomers(CATEGORIES, KNOWN, ~KNOWN, COUNTS)
    assert found.places.tolist() == [3, 4]
    found.score(block)
    return block[0]


def test_a_new_item_has_its_share_of_the_recent_events_of_its_category() -> None:
    found = scored([np.log(0.1), np.log(0.3), np.log(0.6)])
    # The known items of category 0 have 6 + 2 events, 1/2 more for each, and 0.4 of the likelihood.
    assert np.exp(found[:5]) == pytest.approx([0.1, 0.3, 0.6, 0.4 * 4.5 / 9, 0.4 * 0.5 / 9])
    # Without a known item of the category a score stays what it was.
    assert found[5:].tolist() == [7.0, 7.0]


def test_shares_do_not_depend_on_the_size_of_the_scores() -> None:
    small, large = (scored([each, each - 1.0, 0.0]) for each in (-2.0, 5000.0))
    assert large[3] - small[3] == pytest.approx(5002.0)


def test_where_no_known_item_of_the_category_is_left_there_is_no_candidate() -> None:
    found = scored([-np.inf, -np.inf, 0.0])
    assert found[3:5].tolist() == [-np.inf, -np.inf]
    assert np.exp(scored([-np.inf, np.log(0.4), 0.0])[3]) == pytest.approx(0.4 * 4.5 / 9)


def test_without_recent_events_a_new_item_is_as_likely_as_the_mean_known_one_of_its_category() -> None:
    block = np.array([[np.log(0.1), np.log(0.3), np.log(0.6)] + [7.0] * 4])
    Newcomers(CATEGORIES, KNOWN, ~KNOWN, np.zeros(7)).score(block)
    assert np.exp(block[0, 3:5]) == pytest.approx([(0.1 + 0.3) / 2] * 2)


def test_a_new_item_with_a_vector_gains_by_what_it_has_above_the_mean_of_its_category() -> None:
    block = np.zeros((2, 7), np.float32)
    NewByVector(CATEGORIES, ~KNOWN, COUNTS).score(block)
    # The four items of category 0 have 3 events in the mean.
    expected = np.log([4.5 / 3.5, 0.5 / 3.5, 1, 1])
    np.testing.assert_allclose(block, [[0, 0, 0, *expected]] * 2, atol=1e-6)


def test_without_events_a_new_item_has_the_score_of_its_vector() -> None:
    block = np.ones((1, 7))
    NewByVector(CATEGORIES, ~KNOWN, np.zeros(7)).score(block)
    assert block.tolist() == [[1.0] * 7]
