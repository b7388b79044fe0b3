import numpy as np
import pytest

from components.datasets.tabular.fitted import bin_edges, quantile_knots, quantiles
from components.datasets.tabular.statistics import NumberStatistics, Survey, merge


def _survey(values: np.ndarray, draws: np.ndarray) -> Survey:
    order = np.argsort(draws)
    known = values[~np.isnan(values)]
    numbers = NumberStatistics(
        len(known), len(values) - len(known), known.mean(), ((known - known.mean()) ** 2).sum(), values[order]
    )
    groups = [np.array([1, 3]), np.array([2])]
    return Survey(np.array([len(values), 2]), np.array([1, 1]), groups, draws[order], {"x": numbers})


def test_merged_moments_are_those_of_all_values() -> None:
    random = np.random.default_rng(1)
    parts = [random.normal(1e6, 1, 50), random.normal(1e6 + 5, 2, 80)]
    parts[0][:7] = np.nan
    draws = random.permutation(130).astype(np.uint64)
    merged = merge(_survey(parts[0], draws[:50]), _survey(parts[1], draws[50:]))
    values = np.concatenate(parts)
    assert merged.numbers["x"].mean == pytest.approx(np.nanmean(values), rel=1e-12)
    assert merged.numbers["x"].deviation == pytest.approx(np.nanstd(values), rel=1e-9)
    assert (merged.numbers["x"].known, merged.numbers["x"].missing) == (123, 7)
    np.testing.assert_array_equal(merged.numbers["x"].values, values[np.argsort(draws)])


def test_few_distinct_values_have_a_bin_each() -> None:
    assert bin_edges(np.array([5.0, 5, 1, 9, 1]), 10) == (5.0, 9.0)


def test_bins_hold_equally_many_values() -> None:
    edges = bin_edges(np.random.default_rng(1).permutation(1000).astype(float), 4)
    counts = np.bincount(np.searchsorted(edges, np.arange(1000.0), side="right"))
    assert len(counts) == 4 and counts.min() >= 248 and counts.max() <= 252


def test_a_value_that_fills_a_bin_has_one_of_its_own() -> None:
    sample = np.r_[np.zeros(900), np.arange(1.0, 101.0)]
    edges = bin_edges(sample, 5)
    bins = np.asarray(np.searchsorted(edges, sample, side="right"))
    assert set(bins[:900]) == {0}
    assert np.bincount(bins[900:]).tolist() == [0, 24, 25, 25, 26]


def test_quantiles_hold_equally_many_values_whatever_the_tail() -> None:
    sample = np.random.default_rng(1).lognormal(0, 3, 3200)
    knots = quantile_knots(sample)
    assert len(knots) == 33 and (knots[0], knots[-1]) == (sample.min(), sample.max())
    counts = np.histogram(quantiles(knots, sample), np.linspace(0, 1, 9) + 1e-9)[0]
    assert np.abs(counts - 400).max() <= 8


def test_values_of_a_column_without_numbers_are_all_in_one_place() -> None:
    assert quantile_knots(np.zeros(0)) == (0.0,) and quantile_knots(np.full(9, 7.0)) == (7.0,)
    np.testing.assert_array_equal(quantiles((7.0,), np.array([1.0, 7.0, 9.0])), 0)
