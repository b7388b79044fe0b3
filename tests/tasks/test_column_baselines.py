"""The baselines of tables: click rates of the columns' values."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest

from components.feature_spec import Channel, Chunk, Feature, FeatureSpec
from components.metrics import roc_auc
from components.tasks.binary.columns import ColumnBaselines, column_baselines
from components.tasks.click import TASK, ClickEvaluation

Samples = Mapping[str, np.ndarray]
FEATURES = (
    Feature("device", "int64", 9),
    Feature("topics", "int64", 20, 3),
    Feature("age", "float32"),
)


def specification(*features: Feature) -> FeatureSpec:
    label = Feature("label", "bool")
    channels: dict[str, tuple[str, ...]] = {Channel.LABEL: ("label",)}
    for feature in features:
        channel = Channel.NUMERICAL if feature.is_float else Channel.MULTIHOT if feature.length else Channel.CATEGORICAL
        channels[channel] = (*channels.get(channel, ()), feature.name)
    held = tuple(feature.name for feature in (label, *features))
    sources = {split: Chunk(held, (f"{split}/a",)) for split in ("train", "test")}
    return FeatureSpec({feature.name: feature for feature in (label, *features)}, sources, channels)


def fitted(first: Samples, second: Samples, *features: Feature, batch: int = 10_000) -> ColumnBaselines:
    """The baselines of these features, fitted on batches."""
    found = column_baselines(specification(*features))
    assert found is not None

    def batches(samples: Samples) -> list[Samples]:
        rows = len(samples["label"])
        return [
            {name: values[begin : begin + batch] for name, values in samples.items()} for begin in range(0, rows, batch)
        ]

    found.fit(batches(first), batches(second))
    return found


def drawn(seed: int, rows: int = 4000) -> dict[str, np.ndarray]:
    """Samples whose log-odds rise by the device and topic 7, and are highest at the middle age."""
    random = np.random.default_rng(seed)
    device, topics = random.integers(1, 10, rows), random.integers(0, 21, (rows, 3))
    age = random.normal(size=rows).astype(np.float32)
    logits = 0.5 * (device - 5) + 1.5 * (topics == 7).any(1) + 2.0 * (abs(age) < 0.7) - 1.5
    clicked = random.random(rows) < 1 / (1 + np.exp(-logits))
    return {"label": clicked.astype(np.int8), "device": device, "topics": topics, "age": age, "logits": logits}


def test_the_log_odds_of_a_value_are_those_by_hand() -> None:
    samples = {"label": np.array([1, 1, 0, 0, 1, 0, 0, 0]), "device": np.array([3, 3, 3, 5, 5, 5, 5, 5])}
    found = fitted(samples, samples, FEATURES[0])
    scores = found.scores({"device": np.array([3, 5, 4])})["best_column"]
    rate = 3 / 8
    three, five = (
        math.log((clicks + 10 * rate) / (others + 10 * (1 - rate))) - math.log(rate / (1 - rate))
        for clicks, others in ((2, 1), (1, 4))
    )
    np.testing.assert_allclose(scores, [three, five, 0])  # no sample has 4


def test_a_list_has_the_mean_of_its_ids_and_padding_says_nothing() -> None:
    topics = np.array([[0, 0, 1], [0, 0, 1], [0, 0, 2], [0, 0, 2]])
    samples = {"label": np.array([1, 1, 0, 0]), "topics": topics}
    found = fitted(samples, samples, FEATURES[1])
    given = np.array([[0, 0, 1], [0, 1, 2], [0, 0, 0], [1, 1, 2]])
    one, both, none, two = found.scores({"topics": given})["best_column"]
    assert one == pytest.approx(math.log((2 + 5) / 5)) and both == pytest.approx(0) and none == 0
    assert two == pytest.approx(one / 3)


@pytest.mark.parametrize("batch", [333, 10_000])
def test_the_regression_reaches_additive_causes_and_the_best_column_is_named(batch: int) -> None:
    found, test = fitted(drawn(1), drawn(2), *FEATURES, batch=batch), drawn(3)
    scores = found.scores(test)
    best = roc_auc(test["label"], test["logits"])
    assert roc_auc(test["label"], scores["baseline"]) > best - 0.01
    assert found.about == {"best_column": "device"}
    assert roc_auc(test["label"], scores["best_column"]) == pytest.approx(
        roc_auc(test["label"], test["device"]), abs=0.01
    )


def test_a_column_of_noise_with_a_value_each_does_not_spoil_the_baseline() -> None:
    """In-sample rates of such a column are the labels; the regression is fitted on other samples."""
    parts = [drawn(seed) for seed in (1, 2, 3)]
    for number, part in enumerate(parts):
        part["row"] = np.arange(4000) + 4000 * number + 1
    found = fitted(parts[0], parts[1], *FEATURES, Feature("row", "int64", 12_000))
    assert roc_auc(parts[2]["label"], found.scores(parts[2])["baseline"]) > 0.98 * roc_auc(
        parts[2]["label"], parts[2]["logits"]
    )


def test_a_sample_of_one_class_gives_no_baseline() -> None:
    samples = drawn(1)
    never = {**samples, "label": np.zeros_like(samples["label"])}
    for first, second in ((samples, never), ({name: values[:0] for name, values in samples.items()}, never)):
        found = fitted(first, second, *FEATURES)
        assert found.scores(drawn(2)) == {} and found.about == {}


def test_many_columns_are_fitted_on_fewer_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("components.tasks.binary.columns._MOST_NUMBERS", 3 * 600)
    read: list[int] = []

    def fit(columns: np.ndarray, labels: np.ndarray) -> object:
        read.append(len(labels))
        return object()

    monkeypatch.setattr("components.tasks.binary.columns.fit_logistic", fit)
    fitted(drawn(1), drawn(2), *FEATURES, batch=400)
    assert read == [600]


def test_data_without_columns_have_no_baselines() -> None:
    assert column_baselines(specification()) is None
    assert TASK.controls(specification(), ClickEvaluation()) is None
    assert TASK.controls(specification(*FEATURES), ClickEvaluation(baseline_samples=0, importance_samples=0)) is None
    without = TASK.controls(specification(*FEATURES), ClickEvaluation(baseline_samples=0))
    assert without is not None and without.baselines is None
    assert [probe.name for probe in without.columns] == ["age", "device", "topics"]
    wanted = TASK.controls(specification(*FEATURES), ClickEvaluation())
    assert wanted is not None and wanted.probes == ()


@pytest.mark.parametrize(("auc", "low", "is_told"), [(1.0, 0.98, True), (1.0, 0.7, False), (0.97, 0.96, False)])
def test_a_column_that_tells_the_label_is_told(auc: float, low: float, is_told: bool) -> None:
    own = {"test_auc": 0.9, "test_auc_low": 0.8}
    metrics = {"best_column": "boat", "test_best_column_auc": auc, "test_best_column_auc_low": low, **own}
    assert [each.startswith("column boat alone has a test AUC of 1.0000") for each in TASK.remarks(metrics)] == (
        [True] if is_told else []
    )
