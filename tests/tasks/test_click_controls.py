"""What the score of a click model rests on: the numbers, the sentences, and the veto."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from components.feature_spec import Channel, Feature, FeatureSpec
from components.metrics import auc_interval, roc_auc
from components.tasks import Controlled
from components.tasks.binary.columns import fit_logistic
from components.tasks.binary.measure import measure_binary_controls
from components.tasks.click import AUC, TASK, ClickDecision, ClickEvaluation
from components.tasks.click.baselines import POPULARITY, SPANS, HistoryBaselines, history_pairs, recency_counts
from components.tasks.click.measure import auc_intervals, controls, other_history, probes_of
from components.tasks.controls import RECENT_POPULARITY
from components.tasks.kept import oldest_two, told_apart
from tests.binary import binary_scores, probabilities_of
from tests.fakes.small_histories import FIRST_ID, ITEMS, LENGTH, UNKNOWN, draw, specification


def test_the_counts_of_three_samples_are_those_by_hand() -> None:
    item, category = history_pairs(specification())
    samples = {
        "cat_trgt": np.array([5, 6, UNKNOWN]),
        "cat_pos": np.array([[0, 5, 6, 5], [5, 5, 6, 5], [0, 0, UNKNOWN, UNKNOWN]]),
        "item_trgt": np.array([0, 9, UNKNOWN]),
        "item_pos": np.array([[0, 7, 8, 9], [9, 9, 9, 9], [0, 0, UNKNOWN, UNKNOWN]]),
    }
    assert list(SPANS) == [1, 3, 10, 30, float("inf")]
    third, tenth, thirtieth = 2 / 3, 9 / 10, 29 / 30
    # The first sample's category is the newest item's and the third newest one's; categories have no unknown id here.
    expected = [
        [1, 1 + third**2, 1 + tenth**2, 1 + thirtieth**2, 2],
        [0, third, tenth, thirtieth, 1],
        [1, 1 + third, 1 + tenth, 1 + thirtieth, 2],
    ]
    np.testing.assert_allclose(recency_counts(samples, category), expected, rtol=1e-6)
    # Padding is no item, and two unknown items need not be the same one.
    every = [sum(factor**ago for ago in range(4)) for factor in (third, tenth, thirtieth)]
    np.testing.assert_allclose(recency_counts(samples, item), [[0.0] * 5, [1.0, *every, 4.0], [0.0] * 5], rtol=1e-6)


@pytest.mark.parametrize("has_recent", [False, True])
def test_recent_popularity_scores_by_the_last_days_and_then_by_all(tmp_path: Path, has_recent: bool) -> None:
    ids = np.arange(FIRST_ID, FIRST_ID + ITEMS)
    table = {"id": ids, "value": [str(each) for each in ids], "count": ids % 7, "reviews": ids % 7}
    (tmp_path / "vocabulary").mkdir()
    recent = {"recent": ids % 3} if has_recent else {}
    pq.write_table(pa.table(table | recent), tmp_path / "vocabulary" / "item.parquet")
    spec = specification(tmp_path)
    baselines = HistoryBaselines(spec, history_pairs(spec))
    baselines.fit([draw(300, 1)], [draw(300, 2)])
    tested = draw(100, 3)
    found, items = baselines.scores(tested), tested["item_trgt"]
    assert (RECENT_POPULARITY in found) == has_recent
    if has_recent:
        by_hand = np.lexsort((np.arange(100), items % 7, items % 3))
        np.testing.assert_array_equal(np.lexsort((np.arange(100), found[RECENT_POPULARITY])), by_hand)
        assert not np.array_equal(np.argsort(found[POPULARITY]), np.argsort(found[RECENT_POPULARITY]))


def test_histories_are_exchanged_between_users_as_a_whole() -> None:
    random = np.random.default_rng(0)
    users = random.permutation(np.repeat(np.arange(20), 3))
    items = users[:, None] * 10 + np.arange(4)
    changed = other_history({"user": users, "a": items, "b": -items}, ("a", "b"), "user")
    given = changed["a"][:, 0] // 10
    assert (given != users).all()
    np.testing.assert_array_equal(changed["a"], given[:, None] * 10 + np.arange(4))
    np.testing.assert_array_equal(changed["b"], -changed["a"])
    # Each user's samples get the history of one other user, and each history goes to one user.
    assert len({*zip(users.tolist(), given.tolist(), strict=True)}) == len(set(given.tolist())) == 20


def test_what_is_told_of_events_goes_with_their_history() -> None:
    spec = specification()
    told = Feature("device_sequence", "int64", 4, LENGTH)
    test = replace(spec.sources["test"], features=(*spec.sources["test"].features, told.name))
    with_events = replace(
        spec,
        features={**spec.features, told.name: told},
        channels={**spec.channels, Channel.EVENTS: (told.name,)},
        sources={**spec.sources, "test": test},
    )
    for probe in probes_of(with_events):
        assert (told.name in probe.changes) == ("item_pos" in probe.changes)


def test_the_regression_finds_the_log_odds_whatever_the_scale_of_a_column() -> None:
    random = np.random.default_rng(0)
    columns = random.normal(size=(200_000, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 1]
    log_odds = columns @ [1.0, 0.1, -5, 0.3] - 1
    labels = random.random(len(columns)) < 1 / (1 + np.exp(-log_odds))
    columns = np.column_stack([columns, np.full(len(columns), 7.0)])  # a constant says nothing
    found = fit_logistic(columns, labels).decision_function(columns)
    np.testing.assert_allclose(found, log_odds, atol=0.1)


def test_the_regression_of_separable_classes_is_finite() -> None:
    columns = np.linspace(-1, 1, 1000)[:, None]
    found = fit_logistic(columns, columns[:, 0] > 0).decision_function(columns)
    assert np.isfinite(found).all()
    assert roc_auc(columns[:, 0] > 0, found) == 1


def test_a_saturated_wrong_prediction_costs_a_finite_log_loss() -> None:
    scores = binary_scores(np.array([0, 1], np.int8), np.array([1.0, 1.0], np.float32))
    assert TASK.measure(scores, None).metrics["test_logloss"] == pytest.approx(-math.log(1e-7) / 2, rel=1e-3)


def drawn(better: float, rows: int = 2000) -> Controlled:
    """A model whose log-odds are as good as the baseline's plus ``better``."""
    random = np.random.default_rng(1)
    labels = (random.random(rows) < 0.5).astype(np.int8)
    baseline = labels + random.normal(size=rows)
    values = baseline + better * labels
    model = binary_scores(labels, (1 / (1 + np.exp(-values))).astype(np.float32), {"user": np.arange(rows) // 2})
    return Controlled(model, {"baseline": baseline, "empty_history": None}, 100)


def measure_controls(controlled: Controlled) -> dict[str, Any]:
    return measure_binary_controls(controlled, AUC, auc_intervals)


def test_the_difference_to_the_baseline_is_paired_and_over_users() -> None:
    controlled = drawn(0.5)
    metrics, model = measure_controls(controlled), controlled.model
    baseline, users = controlled.others["baseline"], model.kept["user"]
    expected = auc_interval(model.labels, probabilities_of(model), baseline, samples=500, clusters=users)
    names = [f"test_auc_above_baseline{part}" for part in ("", "_low", "_high")]
    assert [metrics[name] for name in names] == [expected.estimate, expected.low, expected.high]
    assert metrics["test_baseline_auc_low"] < metrics["test_baseline_auc"] < metrics["test_baseline_auc_high"]
    assert metrics["test_controls_auc"] - metrics["test_baseline_auc"] == pytest.approx(expected.estimate)
    assert metrics["test_empty_history_auc"] is None and metrics["test_auc_above_empty_history_low"] is None


def test_samples_of_one_class_have_no_controls() -> None:
    controlled = drawn(0.5)
    clicked = replace(
        controlled, model=replace(controlled.model, targets={"label": np.ones_like(controlled.model.labels)})
    )
    assert measure_controls(clicked) == {}


@pytest.mark.parametrize(("better", "vetoed"), [(0.5, False), (0.0, True), (-0.5, True)])
def test_a_model_that_does_not_beat_the_baseline_is_vetoed_unless_the_parameter_is_off(
    better: float, vetoed: bool
) -> None:
    metrics = measure_controls(drawn(better))
    reasons = TASK.baseline_vetoes(metrics, ClickDecision())
    assert bool(reasons) == vetoed
    assert list(TASK.baseline_vetoes(metrics, ClickDecision(require_baseline=False))) == []
    assert list(TASK.remarks({**metrics, "test_auc": 0.8, "test_auc_low": 0.7})) == list(reasons)
    if reasons:
        assert f"{metrics['test_auc_above_baseline']:+.4f}" in reasons[0]


def test_a_model_that_may_be_guessing_is_vetoed_unless_the_floor_is_below_guessing() -> None:
    metrics = {"test_auc": 0.62, "test_auc_low": 0.47}
    (why,) = TASK.vetoes(metrics, ClickDecision(require_baseline=False))
    assert why == "the test AUC 0.6200 is not above that of guessing, 0.5000, by more than chance"
    assert not TASK.vetoes({**metrics, "test_auc_low": 0.51}, ClickDecision())
    assert not TASK.vetoes(metrics, ClickDecision(auc_floor=0.49))


def test_without_a_baseline_nothing_is_required() -> None:
    assert list(TASK.baseline_vetoes({"test_auc": 0.7}, ClickDecision())) == []
    assert list(TASK.baseline_vetoes(measure_controls(replace(drawn(0), others={})), ClickDecision())) == []


def whole(controlled: Controlled, **more: Any) -> str:
    """The section of the report, as text."""
    measured = TASK.measure(replace(controlled.model, controlled=controlled), None)
    (section,) = TASK.story(replace(measured, metrics={**measured.metrics, **more})).first
    return section.text + "".join(figure.chart for figure in section.figures)


def test_the_report_shows_the_controls_with_a_sentence_each() -> None:
    assert "it has learned more than these counts" in whole(drawn(0.5))
    assert "The difference to the model may be chance" in whole(drawn(0.0))
    assert "the counts do better" in whole(drawn(-0.5))
    assert "on all 2,000 test samples" in whole(drawn(0.5))
    assert "empty history" not in whole(drawn(0.5))  # it has no score


def test_the_best_possible_auc_is_shown_where_it_is_known() -> None:
    assert "the best possible" in whole(drawn(0.5), test_best_auc=0.9)
    assert "the best possible" not in whole(drawn(0.5))


def test_data_without_columns_and_histories_have_no_controls_and_the_report_no_section() -> None:
    features = {"label": Feature("label", "bool"), "a": Feature("a", "int64", 9)}
    channels = {Channel.LABEL: ("label",), Channel.CATEGORICAL: ("a",)}
    given = specification()  # whose records have no feature a
    spec = FeatureSpec(features, given.sources, channels)
    assert controls(spec, ClickEvaluation()) is None
    model = drawn(0.5).model
    (section,) = TASK.story(TASK.measure(model, None)).first
    assert not section.figures


def test_zero_samples_leave_the_section_out() -> None:
    assert controls(specification(), ClickEvaluation(control_samples=0)) is None
    without = controls(specification(), ClickEvaluation(baseline_samples=0))
    assert without is not None and without.baselines is None and len(without.probes) == 3


def test_unknown_users_are_told_apart_by_the_beginning_of_their_histories() -> None:
    histories = np.array(
        [[0, 0, 7, 8], [0, 7, 8, 9], [7, 8, 9, 5], [0, 7, 9, 8], [0, 0, 0, 0], [0, 0, 0, 0], [0, 7, 8, 9]]
    )
    ids = told_apart(np.array([2, 2, 2, 2, 2, 2, 9]), 2, oldest_two(histories))
    assert ids[0] == ids[1] == ids[2]
    assert len(set(ids.tolist())) == 5  # an empty history tells nothing
    assert ids[6] == 9 and ids[:6].min() > 9


def test_a_history_of_one_item_and_a_full_one_have_keys_of_their_own() -> None:
    keys = oldest_two(np.array([[0, 0, 5], [5, 6, 7], [0, 5, 6], [0, 0, 0]]))
    assert keys[1] == keys[2] != keys[0] and keys[3] == 0


def test_samples_of_one_item_go_to_the_users_who_began_with_it_in_turn() -> None:
    histories = np.array([[0, 5], [5, 6], [0, 5], [5, 9], [0, 5], [0, 8], [0, 8], [7, 5]])
    ids = told_apart(np.full(8, 2), 2, oldest_two(histories))
    assert ids[0] == ids[1] == ids[4] and ids[2] == ids[3] != ids[0]
    assert ids[5] == ids[6] and len(set(ids.tolist())) == 4  # nothing else is known of those who began with 8
