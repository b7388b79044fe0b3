"""Permutation importance of the columns of a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from components.contract import PROBABILITY
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.spec import BOOL, FLOAT, Chunk
from components.metrics import roc_auc
from components.metrics.delong import delong_difference, delong_interval
from components.tasks.binary.importance import importance_section, measure_importance, shuffled_columns
from components.tasks.scores import Controlled, Scores

RNG = np.random.default_rng(5)


def spec_of(columns: int = 1) -> FeatureSpec:
    """Numbers ``n0``, ..., of which n0 has a bin, and the label."""
    numbers = [f"n{index}" for index in range(columns)]
    features = {name: Feature(name, FLOAT) for name in numbers}
    features |= {"n0_bin": Feature("n0_bin", "int64", 9), "y": Feature("y", BOOL)}
    channels = {Channel.LABEL: ("y",), Channel.NUMERICAL: tuple(numbers), Channel.CATEGORICAL: ("n0_bin",)}
    return FeatureSpec(features, {"test": Chunk(tuple(features), ())}, channels, {"derived": {"n0_bin": "n0"}})


def measured(columns: int) -> dict[str, Any]:
    """Of a model whose logit is 2 n0 + n1, where n0 is read from its bin, too."""
    rows = 4000
    samples = {f"n{index}": RNG.normal(size=rows) for index in range(columns)}
    samples["n0_bin"] = samples["n0"] + 3

    def score(given: dict[str, np.ndarray]) -> np.ndarray:
        return 1 / (1 + np.exp(-(given["n0"] + given["n0_bin"] - 3 + given["n1"])))

    labels = (RNG.random(rows) < score(samples)).astype(np.int8)
    changed = {probe.name: score({**samples, **probe.change(samples)}) for probe in shuffled_columns(spec_of(columns))}
    model = Scores({"y": labels}, {PROBABILITY: score(samples)})
    return measure_importance(Controlled(model, {}, 0, {}, np.arange(rows), changed))


def test_features_of_one_column_are_shuffled_alike() -> None:
    (probe,) = shuffled_columns(spec_of())
    assert probe.name == "n0" and set(probe.changes) == {"n0", "n0_bin"}
    values = np.arange(100.0)
    changed = probe.change({"n0": values, "n0_bin": values + 3})
    np.testing.assert_array_equal(changed["n0_bin"], changed["n0"] + 3)
    np.testing.assert_array_equal(np.sort(changed["n0"]), values)
    assert (changed["n0"] != values).mean() > 0.9


def test_the_column_that_the_model_rests_on_loses_most_and_an_unread_one_nothing() -> None:
    first, second, third = measured(3)["importance"]
    assert (first["column"], second["column"], third["column"]) == ("n0", "n1", "n2")
    assert first["low"] > second["high"] and second["low"] > 0
    assert third["auc_loss"] == third["low"] == third["high"] == 0


def test_a_table_of_sixty_columns_has_a_chart_that_fits_the_page() -> None:
    section = importance_section(measured(60))
    (figure,) = section.figures
    assert figure.chart.count("<circle") == 20 and "The 40 others lose less" in figure.note


def test_nothing_is_measured_without_columns() -> None:
    model = Scores({"y": np.array([0, 1], np.int8)}, {PROBABILITY: np.array([0.1, 0.9])})
    assert measure_importance(Controlled(model, {}, 0)) == {} and not importance_section({}).figures


def test_the_interval_of_a_difference_is_narrower_than_those_of_both_and_holds_it() -> None:
    labels = RNG.random(3000) < 0.3
    one = labels + RNG.normal(size=3000)
    other = one + 0.3 * RNG.normal(size=3000)
    found = delong_difference(labels, one, other)
    assert found.estimate == pytest.approx(roc_auc(labels, one) - roc_auc(labels, other), abs=1e-9)
    alone = delong_interval(labels, one, np.arange(3000))
    assert 0 < found.high - found.low < alone.high - alone.low
    # Of the bootstrap, which draws samples of each class.
    drawn = [
        RNG.choice(np.flatnonzero(labels == value), (400, int((labels == value).sum()))) for value in (False, True)
    ]
    picks = np.concatenate(drawn, axis=1)
    values = [roc_auc(labels[pick], one[pick]) - roc_auc(labels[pick], other[pick]) for pick in picks]
    assert np.std(values) * 2 * 1.96 == pytest.approx(found.high - found.low, rel=0.15)
