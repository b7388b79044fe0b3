"""The task ranking: exact over batches and ranks, in the evaluation, and in the gate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import log_loss

from components.errors import KfrecError
from components.feature_spec import Feature, FeatureSpec
from components.metrics import RankedGroups, roc_auc
from components.report.page import Facts, render
from components.tasks import Controlled, Scores, missing_column
from components.tasks.ranking import TASK, RankingDecision, RankingEvaluation, RankingTraining
from components.tasks.ranking.streaming import RankingMetrics
from components.train.loop.ranks import Alone, owners_of
from tests.binary import binary_scores, probabilities_of, update

K = 3


class Simulated:
    """One of several ranks; all of them send before one of them receives."""

    def __init__(self, rank: int, size: int, sent: list[list[tuple[np.ndarray, list[np.ndarray]]]]) -> None:
        self.rank, self.size, self.sent = rank, size, sent

    def exchange(self, keys: np.ndarray, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        if len(self.sent) < self.size:  # the first round: note what is sent
            self.sent.append([(keys, list(columns))])
            return list(columns)
        parts = [
            [column[owners_of(keys, self.size) == self.rank] for column in columns] for ((keys, columns),) in self.sent
        ]
        return [np.concatenate(column) for column in zip(*parts, strict=True)]


def in_groups(rows: int = 600, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, their log-odds, and groups of three."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=rows)
    return (random.random(rows) < 1 / (1 + np.exp(-logits))).astype(np.int8), logits, np.arange(rows) // 3


def drawn(rows: int = 500, groups: int = 90, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, logits with many ties, and groups in no order, some without a click and most larger than K."""
    random = np.random.default_rng(seed)
    group = random.integers(1, groups + 1, rows) * 6  # multiples of the numbers of ranks
    logits = random.integers(-3, 4, rows).astype(np.float32) / 2
    return (random.random(rows) < 0.2).astype(np.float32), logits, group.astype(np.int32)


def collected(labels: np.ndarray, logits: np.ndarray, groups: np.ndarray, batch: int) -> RankingMetrics:
    metrics = RankingMetrics(False, RankingTraining(map_k=K))
    add = tf.function(partial(update, metrics), autograph=False)
    for begin in range(0, len(labels), batch):
        part = slice(begin, begin + batch)
        add(tf.constant(labels[part]), tf.constant(logits[part]), {"group": tf.constant(groups[part])})
    return metrics


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("batch", [7, 64])
def test_map_is_exact_however_groups_are_cut_over_batches_and_ranks(size: int, batch: int) -> None:
    labels, logits, groups = drawn()
    shares = [np.arange(len(labels)) % (size * batch) // batch == rank for rank in range(size)]
    parts = [collected(labels[share], logits[share], groups[share], batch) for share in shares]
    sent: list = []
    for rank, part in enumerate(parts):
        part.totals(Simulated(rank, size, sent))
    totals = [part.totals(Simulated(rank, size, sent)) for rank, part in enumerate(parts)]
    result = parts[0].result([np.sum(each, axis=0) for each in zip(*totals, strict=True)])
    assert result["map"] == pytest.approx(RankedGroups(labels, logits, groups).mean(K), abs=1e-12)
    p = 1 / (1 + np.exp(-logits.astype(float)))
    assert result["accuracy"] == pytest.approx(np.mean((logits >= 0) == (labels > 0)))
    assert result["logloss"] == pytest.approx(log_loss(labels, p), rel=1e-6)
    assert result["auc"] == pytest.approx(roc_auc(labels, logits), abs=result["auc_error_bound"])


def test_every_rank_receives_whole_groups_and_about_as_many_samples() -> None:
    keys = np.arange(10_000) // 5 * 1000
    owners = owners_of(keys, 8)
    assert all(len(set(owners[begin : begin + 5])) == 1 for begin in range(0, 10_000, 5))
    counts = np.bincount(owners, minlength=8)
    assert counts.min() > 0.8 * 1250 and counts.max() < 1.2 * 1250


def test_a_second_split_starts_from_nothing() -> None:
    metrics = collected(*drawn(), batch=100)
    before = metrics.totals(Alone())
    metrics.reset()
    assert np.isnan(metrics.result([total.numpy() for total in metrics.totals(Alone())])["map"])
    labels, logits, groups = drawn()
    update(metrics, tf.constant(labels), tf.constant(logits), {"group": tf.constant(groups)})
    np.testing.assert_allclose(metrics.totals(Alone())[-1], before[-1])


def test_training_measures_what_is_cheap() -> None:
    metrics = TASK.streaming(True, RankingTraining())
    update(metrics, tf.constant([1.0, 0.0]), tf.constant([2.0, -1.0]), {})
    found = metrics.result([total.numpy() for total in metrics.totals(Alone())])
    assert set(found) == {"auc", "auc_error_bound", "accuracy"} and found["accuracy"] == 1


def test_without_groups_the_other_metrics_remain() -> None:
    metrics = TASK.streaming(False, RankingTraining())
    update(metrics, tf.constant([1.0, 0.0]), tf.constant([2.0, -1.0]), {})
    found = metrics.result([total.numpy() for total in metrics.totals(Alone())])
    assert np.isnan(found["map"]) and found["auc"] == 1


def scores(seed: int = 0) -> Scores:
    labels, logits, groups = drawn(seed=seed)
    return binary_scores(labels.astype(np.int8), 1 / (1 + np.exp(-logits)), {"group": groups})


def test_the_evaluation_reports_map_beside_the_metrics_of_probabilities() -> None:
    measured = TASK.measure(scores(), RankingEvaluation(map_k=K))
    labels, logits, groups = drawn()
    metrics = measured.metrics
    assert metrics["test_map"] == pytest.approx(RankedGroups(labels, logits, groups).mean(K))
    assert metrics["test_map_low"] < metrics["test_map"] < metrics["test_map_high"] and metrics["test_map_k"] == K
    assert {f"test_{metric.name}" for metric in TASK.metrics} <= set(metrics)
    assert sum(bucket["groups"] for bucket in metrics["by_group_size"]) == metrics["test_groups"]
    assert metrics["test_groups"] + metrics["test_groups_left_out"] == len(np.unique(groups))
    assert measured.curves["map"]["model"][K - 1] == pytest.approx(metrics["test_map"])


def test_guessing_has_the_map_of_scores_that_know_nothing() -> None:
    metrics = TASK.measure(scores(), RankingEvaluation(map_k=K)).metrics
    labels, _, groups = drawn()
    random = np.random.default_rng(1)
    guesses = [RankedGroups(labels, random.random(len(labels)), groups).mean(K) for _ in range(300)]
    assert metrics["test_map_of_guessing"] == pytest.approx(np.mean(guesses), abs=4 * np.std(guesses) / 300**0.5)


def test_the_report_draws_the_groups() -> None:
    measured = TASK.measure(scores(), RankingEvaluation(map_k=K))
    page = render(TASK.story(measured), Facts("W&D", {}, {}, "run"), TASK.metrics)
    assert f"Test MAP@{K} {measured.metrics['test_map']:.4f}" in page
    for title in ("MAP@k by k", f"MAP@{K} by size of group", "ROC curve", "Calibration"):
        assert title in page


def test_the_gate_compares_the_same_groups() -> None:
    given = scores()
    mine, groups = probabilities_of(given), given.kept["group"]
    worse = mine + np.random.default_rng(2).normal(0, 2, len(mine))
    interval = TASK.difference(
        given, binary_scores(given.labels, worse, given.kept), RankingEvaluation(map_k=K), 400, 0.9, 5
    )
    gains = [
        RankedGroups(given.labels, values, groups).average_precision(K) for values in (mine, worse)
    ]  # fmt: skip
    paired = gains[0] - gains[1]
    assert interval.estimate == pytest.approx(paired.mean())
    error = paired.std() / np.sqrt(len(paired))
    assert interval.high - interval.low == pytest.approx(2 * 1.645 * error, rel=0.2)
    same = TASK.difference(
        given, binary_scores(given.labels, mine * 2, given.kept), RankingEvaluation(map_k=K), 100, 0.9, 5
    )
    assert same.estimate == same.units == 0 and np.isnan(same.low)


def test_data_without_the_channel_are_one_line() -> None:
    spec = FeatureSpec({"label": Feature("label", "bool")}, {}, {"label": ("label",)})
    line = missing_column(spec, TASK.kept)
    assert "channel_spec has no group, which MAP@k needs" in line and "\n" not in line
    grouped = FeatureSpec({"display": Feature("display", "int64")}, {}, {"group": ("display",)})
    assert missing_column(grouped, TASK.kept) == ""


def test_one_group_for_all_samples_is_one_line() -> None:
    one = binary_scores(np.array([0, 1]), np.array([0.5, 0.6]), {"group": np.array([4, 4])})
    with pytest.raises(KfrecError, match="data: all 2 test samples are in group 4"):
        TASK.require(one, "data")


def test_groups_of_one_class_each_are_one_line() -> None:
    labels, groups = np.array([1, 1, 0, 0]), np.array([1, 1, 2, 3])
    with pytest.raises(KfrecError, match="data: no group of the test samples has both a click and another sample"):
        TASK.require(binary_scores(labels, np.full(4, 0.5), {"group": groups}), "data")


@pytest.mark.parametrize("sign", [1, -1])
def test_a_model_that_ranks_no_better_than_guessing_is_told_and_vetoed(sign: int) -> None:
    labels, logits, groups = in_groups()
    scores = binary_scores(labels, (1 / (1 + np.exp(-sign * logits))).astype(np.float32), {"group": groups})
    metrics = TASK.measure(scores, RankingEvaluation(map_k=K)).metrics
    told = TASK.remarks(metrics)
    assert [*told] == [*TASK.vetoes(metrics, RankingDecision(require_baseline=False))]
    assert [f"{metrics['test_map_of_guessing']:.4f}" in each for each in told] == ([True] if sign < 0 else [])


@pytest.mark.parametrize(("better", "is_vetoed"), [(3.0, False), (0.0, True)])
def test_a_model_is_measured_beside_the_baseline_by_map(better: float, is_vetoed: bool) -> None:
    labels, baseline, groups = in_groups()
    model = (1 / (1 + np.exp(-baseline - better * labels))).astype(np.float32)
    scores = binary_scores(labels, model, {"group": groups})
    controlled = Controlled(scores, {"baseline": baseline, "best_column": -baseline}, 100, {"best_column": "device"})
    measured = TASK.measure(replace(scores, controlled=controlled), RankingEvaluation(map_k=K))
    ours, theirs = (RankedGroups(labels, each, groups).mean(K) for each in (model, baseline))
    assert measured.metrics["test_controls_map"] == pytest.approx(ours)
    assert measured.metrics["test_baseline_map"] == pytest.approx(theirs)
    assert measured.metrics["test_map_above_baseline"] == pytest.approx(ours - theirs)
    assert bool(TASK.baseline_vetoes(measured.metrics, RankingDecision())) == is_vetoed
    assert not TASK.baseline_vetoes(measured.metrics, RankingDecision(require_baseline=False))
    (section,) = TASK.story(measured).first
    assert "device" in section.figures[1].chart
