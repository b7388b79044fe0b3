from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np
import pytest

from components.metrics import RankedGroups


def naive(labels: list[int], scores: list[float], k: int) -> float:
    """AP@k of one group, as the mean over all orders of its samples that the scores allow."""
    found = []
    for order in permutations(range(len(labels))):
        if all(scores[a] >= scores[b] for a, b in pairwise(order)):
            hits, total = 0, 0.0
            for place, index in enumerate(order[:k], 1):
                hits += labels[index]
                total += labels[index] * hits / place
            found.append(total / min(k, sum(labels)))
    return float(np.mean(found))


@pytest.mark.parametrize("k", [1, 2, 3, 12])
@pytest.mark.parametrize("seed", range(3))
def test_each_group_has_the_mean_over_all_orders_of_its_ties(seed: int, k: int) -> None:
    random = np.random.default_rng(seed)
    groups = random.integers(0, 12, 50)
    groups = groups[np.argsort(groups, kind="stable")]
    keep = np.array([np.count_nonzero(groups[:at] == group) < 6 for at, group in enumerate(groups)])  # 720 orders
    groups = random.permutation(groups[keep])
    labels, scores = random.integers(0, 2, len(groups)), random.integers(0, 4, len(groups)) / 4
    ranked = RankedGroups(labels, scores.astype(np.float32), groups)
    expected = {
        group: naive(labels[groups == group].tolist(), scores[groups == group].tolist(), k)
        for group in np.unique(groups)
        if labels[groups == group].any()
    }
    np.testing.assert_array_equal(ranked.groups, list(expected))
    np.testing.assert_allclose(ranked.average_precision(k), list(expected.values()), atol=1e-12)
    assert ranked.left_out == len(np.unique(groups)) - len(expected)


def test_one_click_counts_one_over_its_rank() -> None:
    # Group 7: the click stands second of three. Group 5: fourth of four, which is 0 from MAP@3 on.
    groups = np.array([7, 5, 7, 5, 5, 7, 5])
    labels = np.array([1, 0, 0, 0, 0, 0, 1])
    scores = np.array([0.5, 0.4, 0.9, 0.3, 0.2, 0.1, 0.1])
    ranked = RankedGroups(labels, scores, groups)
    assert ranked.average_precision(12).tolist() == pytest.approx([1 / 4, 1 / 2])
    assert ranked.average_precision(3).tolist() == pytest.approx([0, 1 / 2])
    assert ranked.mean(12) == pytest.approx(3 / 8) and ranked.sizes.tolist() == [4, 3]


def test_a_tie_counts_as_any_order() -> None:
    # One click among three equal scores, below one other: ranks 2, 3 and 4.
    ranked = RankedGroups(np.array([0, 1, 0, 0]), np.array([0.9, 0.5, 0.5, 0.5]), np.zeros(4, int))
    assert ranked.mean(12) == pytest.approx((1 / 2 + 1 / 3 + 1 / 4) / 3)
    assert ranked.mean(3) == pytest.approx((1 / 2 + 1 / 3) / 3)


def test_the_order_of_the_samples_changes_nothing() -> None:
    random = np.random.default_rng(4)
    groups, labels = random.integers(0, 300, 2000), random.integers(0, 5, 2000) == 0
    scores = random.integers(0, 9, 2000).astype(np.float32)
    shuffled = random.permutation(2000)
    there = RankedGroups(labels, scores, groups).average_precision(12)
    again = RankedGroups(labels[shuffled], scores[shuffled], groups[shuffled]).average_precision(12)
    np.testing.assert_allclose(there, again, atol=1e-12)


def test_no_samples_or_no_clicks_have_no_map() -> None:
    nothing = RankedGroups(np.zeros(0, int), np.zeros(0), np.zeros(0, int))
    unclicked = RankedGroups(np.zeros(3, int), np.arange(3), np.array([1, 1, 2]))
    assert np.isnan(nothing.mean(12)) and np.isnan(unclicked.mean(12))
    assert (nothing.left_out, unclicked.left_out) == (0, 2)
