import json
from dataclasses import asdict

import numpy as np
import pytest

from components.metrics import Interval, auc_interval, mean_interval
from components.register.gate import Decision, against_champion, not_comparable, without_champion
from components.tasks import Difference, Metric

AUC = Metric("auc", "AUC")
LOSS = Metric("rmse", "RMSE", higher_is_better=False)


def held_against(low: float, estimate: float, high: float, *vetoes: str) -> Decision:
    difference = Difference(AUC, 0.8, 0.8 - estimate, Interval(estimate, low, high), 0.95)
    return against_champion(3, difference, margin=0.001, vetoes=vetoes)


def losses(low: float, estimate: float, high: float, margin: float = 0.01) -> Decision:
    difference = Difference(LOSS, 7.9 + estimate, 7.9, Interval(estimate, low, high), 0.95)
    return against_champion(3, difference, margin=margin)


def test_a_first_model_above_the_floor_is_the_champion() -> None:
    decision = without_champion(AUC, 0.8123, 0.6)
    assert decision.alias == "champion"
    assert decision.reason == "There was no champion and the test AUC 0.8123 is above the floor of 0.6."


@pytest.mark.parametrize("auc", [0.5, 0.6])
def test_a_first_model_at_or_below_the_floor_is_a_challenger(auc: float) -> None:
    decision = without_champion(AUC, auc, 0.6)
    assert decision.alias == "challenger"
    assert decision.reason == f"There is no champion, but the test AUC {auc:.4f} is not above the floor of 0.6."


def test_a_floor_is_above_guessing() -> None:
    decision = without_champion(AUC, 0.8123, 0.1, guessing=0.75)
    assert decision.alias == "challenger" and "is not above the floor of 0.85, 0.1 above guessing" in decision.reason
    assert without_champion(AUC, 0.8123, 0.05, guessing=0.75).alias == "champion"


def test_a_model_that_is_better_beyond_chance_is_promoted() -> None:
    decision = held_against(0.004, 0.01, 0.016)
    assert decision.alias == "champion"
    assert decision.reason == (
        "Test AUC 0.8000 against 0.7900 of champion version 3 on the same samples: better by 0.0100 "
        "(95 % interval 0.0040 to 0.0160), which is at least the margin of 0.001 and more than chance."
    )


def test_a_model_that_is_better_by_chance_is_a_challenger() -> None:
    decision = held_against(-0.002, 0.01, 0.022)
    assert decision.alias == "challenger"
    assert "may be chance" in decision.reason


@pytest.mark.parametrize(
    ("users", "confidence", "alias"),
    [(1, 0.5, "challenger"), (9, 0.95, "challenger"), (10, 0.95, "champion"), (10, 0.999, "challenger")],
)
def test_few_users_who_all_agree_may_do_so_by_chance(users: int, confidence: float, alias: str) -> None:
    labels, clusters = np.tile([0, 1], users), np.repeat(np.arange(users), 2)
    interval = auc_interval(labels, labels, np.zeros(2 * users), samples=100, confidence=confidence, clusters=clusters)
    decision = against_champion(3, Difference(AUC, 1.0, 0.5, interval, confidence), margin=0.001)
    assert decision.alias == alias and (decision.confidence_interval is None) == (alias == "challenger")
    why = f"better by 0.5000 (no interval), which may be chance, because {users} units of the rarer class are fewer"
    assert (why in decision.reason) == (alias == "challenger")


def test_one_group_does_not_replace_a_champion() -> None:
    interval = mean_interval(np.array([0.3]), samples=100)
    assert against_champion(3, Difference(AUC, 0.8, 0.5, interval, 0.95), margin=0.001).alias == "challenger"


def test_a_model_that_is_surely_better_by_less_than_the_margin_is_a_challenger() -> None:
    decision = held_against(0.0003, 0.0006, 0.0009)
    assert decision.alias == "challenger"
    assert "below the margin of 0.001" in decision.reason


def test_a_model_exactly_at_the_margin_is_promoted() -> None:
    assert held_against(0.0005, 0.001, 0.0015).alias == "champion"


def test_a_worse_model_is_a_challenger() -> None:
    assert held_against(-0.02, -0.01, -0.001).alias == "challenger"


def test_a_model_without_a_comparable_champion_is_a_challenger_that_says_why() -> None:
    decision = not_comparable(AUC, 0.8, 3, "other features")
    assert decision.alias == "challenger"
    assert "Champion version 3 cannot be scored" in decision.reason and "other features" in decision.reason


def test_a_decision_survives_being_written_down() -> None:
    for decision in (held_against(0.004, 0.01, 0.016), without_champion(AUC, 0.7, 0.6)):
        assert Decision.from_dict(json.loads(json.dumps(asdict(decision)))) == decision


def test_a_metric_of_which_less_is_better_turns_everything_round() -> None:
    assert without_champion(LOSS, 0.5, 0.6).alias == "champion"
    assert without_champion(LOSS, 0.7, 0.6).reason.endswith("the test RMSE 0.7000 is not below the ceiling of 0.6.")
    decisions = losses(-0.15, -0.1, -0.05), losses(0.05, 0.1, 0.15), losses(-0.25, -0.1, 0.05)
    assert [decision.alias for decision in decisions] == ["champion", "challenger", "challenger"]


def test_a_worse_loss_is_called_worse() -> None:
    assert losses(2.5, 2.8085, 3.1).reason == (
        "Test RMSE 10.7085 against 7.9000 of champion version 3 on the same samples: worse by 2.8085 "
        "(95 % interval 2.5000 to 3.1000), so the champion stays."
    )


def test_a_loss_that_is_hardly_better_is_called_better() -> None:
    assert losses(-0.0015, -0.0012, -0.0009, margin=0.005).reason.endswith(
        "better by 0.0012 (95 % interval 0.0009 to 0.0015), which is below the margin of 0.005."
    )


def test_an_interval_on_both_sides_says_which_end_is_better() -> None:
    assert (
        "better by 0.1000 (95 % interval from worse by 0.0500 to better by 0.2500)" in losses(-0.25, -0.1, 0.05).reason
    )


NOT_FINITE = (float("nan"), float("inf"), float("-inf"))


@pytest.mark.parametrize("metric", [AUC, LOSS], ids=["higher", "lower"])
@pytest.mark.parametrize("value", NOT_FINITE)
def test_nothing_non_finite_becomes_the_first_champion(metric: Metric, value: float) -> None:
    decision = without_champion(metric, value, 0.6)
    assert decision.alias == "challenger"
    assert decision.reason == f"There is no champion, but the test {metric.label} is {value}, not a finite number."


@pytest.mark.parametrize("metric", [AUC, LOSS], ids=["higher", "lower"])
@pytest.mark.parametrize("value", NOT_FINITE)
@pytest.mark.parametrize("place", ["score", "champion", "difference", "low", "high"])
def test_nothing_non_finite_replaces_a_champion(metric: Metric, value: float, place: str) -> None:
    up = 1 if metric.higher_is_better else -1
    numbers = {"score": 0.8, "champion": 0.7, "difference": up * 0.1, "low": up * 0.05, "high": up * 0.15}
    score, champion, difference, *ends = (numbers | {place: value}).values()
    found = Difference(metric, score, champion, Interval(difference, *sorted(ends)), 0.95)
    decision = against_champion(3, found, margin=0.0)
    assert decision.alias == "challenger"
    assert "finite" in decision.reason and decision.reason.count(".") == decision.reason.rstrip(".").count(".") + 1
    assert decision.difference is None and decision.confidence_interval is None


def test_a_champion_without_a_finite_score_says_how_to_replace_it() -> None:
    found = Difference(LOSS, 7.9, float("nan"), Interval(float("nan"), float("nan"), float("nan")), 0.95)
    decision = against_champion(3, found, margin=0.01)
    assert "its test RMSE is nan, not a finite number" in decision.reason
    assert decision.reason.endswith("to replace that champion nevertheless, promote this version with kfrec promote.")


def test_a_veto_keeps_a_better_model_from_promotion_and_is_told() -> None:
    decision = held_against(0.004, 0.01, 0.016, "it is not better than the baseline")
    assert decision.alias == "challenger"
    assert decision.reason.endswith("and more than chance, but it is not better than the baseline.")


def test_a_veto_of_a_worse_model_is_a_further_reason() -> None:
    decision = held_against(-0.006, -0.004, -0.002, "it is not better than the baseline")
    assert decision.alias == "challenger"
    assert decision.reason.endswith("so the champion stays; also, it is not better than the baseline.")


def test_a_veto_keeps_a_first_model_from_promotion_and_is_told() -> None:
    decision = without_champion(AUC, 0.8, 0.6, ["it is not better than the baseline", "it is too slow"])
    assert decision.alias == "challenger"
    assert decision.reason == "There is no champion, but it is not better than the baseline; it is too slow."
