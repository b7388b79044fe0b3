import json
from dataclasses import asdict

import pytest

from components.metrics import Interval
from components.register.gate import Decision, against_champion, not_comparable, without_champion
from components.tasks import Metric

AUC = Metric("auc", "AUC")
LOSS = Metric("rmse", "RMSE", higher_is_better=False)


def held_against(low: float, estimate: float, high: float) -> Decision:
    difference = Interval(estimate, low, high)
    return against_champion(AUC, 0.8, 3, 0.8 - estimate, difference, margin=0.001, confidence=0.95)


def test_a_first_model_above_the_floor_is_the_champion() -> None:
    decision = without_champion(AUC, 0.8123, 0.6)
    assert decision.alias == "champion"
    assert decision.reason == "There was no champion and the test AUC 0.8123 is above the floor of 0.6."


@pytest.mark.parametrize("auc", [0.5, 0.6])
def test_a_first_model_at_or_below_the_floor_is_a_challenger(auc: float) -> None:
    decision = without_champion(AUC, auc, 0.6)
    assert decision.alias == "challenger"
    assert decision.reason == f"There is no champion, but the test AUC {auc:.4f} is not above the floor of 0.6."


def test_a_model_that_is_better_beyond_chance_is_promoted() -> None:
    decision = held_against(0.004, 0.01, 0.016)
    assert decision.alias == "champion"
    assert decision.reason == (
        "Test AUC 0.8000 against 0.7900 of champion version 3 on the same samples: a difference of +0.0100 "
        "(95 % interval +0.0040 to +0.0160), which is at least the margin of 0.001 and more than chance."
    )


def test_a_model_that_is_better_by_chance_is_a_challenger() -> None:
    decision = held_against(-0.002, 0.01, 0.022)
    assert decision.alias == "challenger"
    assert "may be chance" in decision.reason


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
    assert without_champion(LOSS, 0.7, 0.6).reason.endswith("the test RMSE 0.7000 is not below the floor of 0.6.")
    better = against_champion(LOSS, 0.5, 3, 0.6, Interval(-0.1, -0.15, -0.05), margin=0.01, confidence=0.95)
    worse = against_champion(LOSS, 0.7, 3, 0.6, Interval(0.1, 0.05, 0.15), margin=0.01, confidence=0.95)
    chance = against_champion(LOSS, 0.5, 3, 0.6, Interval(-0.1, -0.25, 0.05), margin=0.01, confidence=0.95)
    assert (better.alias, worse.alias, chance.alias) == ("champion", "challenger", "challenger")
