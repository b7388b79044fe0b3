"""HR@K, NDCG@K, recall and coverage of the task click, from known ranks."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from components.tasks import Ranked
from components.tasks.catalogue import catalogue_sections, measure_catalogue
from components.tasks.definition import Example

LISTS = np.array([[0, 1], [0, 2], [0, 1], [3, -1]])
RANKED = Ranked(
    2,
    20,
    np.array([1.0, 2.0, 15.5, np.inf]),
    LISTS,
    np.array([2.0, 3.0, 21.0, np.inf]),
    np.array([[0, 1]] * 4),
    "likelihood",
)


def test_metrics_of_known_ranks() -> None:
    found = measure_catalogue(RANKED)
    assert found["test_hr_at_2"] == 0.5
    assert found["test_ndcg_at_2"] == pytest.approx((1 + 1 / math.log2(3)) / 4)
    assert found["test_recall_at_20"] == 0.75
    assert found["test_coverage_at_2"] == 4 / 20
    assert found["test_popularity_hr_at_2"] == 0.25
    assert found["test_popularity_coverage_at_2"] == 2 / 20
    assert found["test_hr_at_2_above_popularity"] == 0.25
    assert found["test_catalogue_unknown_targets"] == 0.25
    assert found["test_catalogue_users"] == 4 and found["test_catalogue_items"] == 20
    json.dumps(found, allow_nan=False)


def test_a_mean_rank_of_ties_beyond_k_is_no_hit() -> None:
    tied = Ranked(2, 20, np.array([2.5, 2.0]), LISTS[:2])
    assert measure_catalogue(tied)["test_hr_at_2"] == 0.5


def test_intervals_surround_the_estimates_and_those_of_the_difference_are_paired() -> None:
    ranks = np.tile([1.0, 30.0], 100)
    found = measure_catalogue(Ranked(2, 50, ranks, LISTS[:1], ranks, LISTS[:1]))
    assert found["test_hr_at_2_low"] < 0.5 < found["test_hr_at_2_high"]
    assert found["test_hr_at_2_above_popularity"] == 0 and found["test_hr_at_2_above_popularity_low"] is None


def test_the_report_has_both_rows_and_says_how_many_targets_are_unknown() -> None:
    (section,) = catalogue_sections(measure_catalogue(RANKED))
    (figure,) = section.figures
    assert "25.0% of the targets" in section.text and "Ranked by likelihood" in section.text
    for text in ("HR@2", "NDCG@2", "Recall@20", "Coverage@2", "Model", "Popularity", "Difference"):
        assert text in figure.chart
    assert not catalogue_sections({})


def test_without_counts_the_report_says_why_it_is_lift_and_has_no_popularity() -> None:
    found = measure_catalogue(Ranked(2, 20, np.array([1.0]), LISTS[:1], by="lift", note="ranks by lift: no counts"))
    (section,) = catalogue_sections(found)
    assert "The model ranks by lift: no counts." in section.text and "Popularity" not in section.figures[0].chart
    assert "test_popularity_hr_at_2" not in found


def test_novelty_is_in_bits_and_diversity_the_share_of_pairs_of_two_categories() -> None:
    counts, categories = np.array([4.0, 2.0, 1.0, 1.0]), np.array([7, 7, 8, 9])
    lists = np.array([[0, 1, 2], [0, 3, -1]])
    found = measure_catalogue(
        Ranked(3, 4, np.array([1.0, 1.0]), lists, np.array([1.0, 1.0]), lists, counts=counts, categories=categories)
    )
    assert found["test_novelty_at_3"] == pytest.approx((1 + 2 + 3 + 1 + 3) / 5)
    assert found["test_diversity_at_3"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["test_popularity_diversity_at_3"] == found["test_diversity_at_3"]


def test_example_lists_are_in_the_report() -> None:
    examples = [Example(["a (toys)"], "b", None, ["c", "d"]), Example([], "e", 3.0, ["f"])]
    found = measure_catalogue(replace(RANKED, examples=examples))
    json.dumps(found, allow_nan=False)
    (section,) = catalogue_sections(found)
    chart = section.figures[1].chart
    assert "<td>a (toys)</td><td>b</td><td>–</td><td>c, d</td>" in chart and "<td>3</td><td>f</td>" in chart
