"""Scores that are drawn at random pass the gate no more often than its level of 2.5 % on either side states."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from components.contract import LOG_LIKELIHOOD
from components.metrics import auc_interval, resampled_auc
from components.register.comparison import Candidate
from components.register.gate import CHAMPION, Decision, against_champion
from components.tasks import Controlled, Difference, Scores, TaskDefinition
from components.tasks.click import TASK as CLICK
from components.tasks.next_item import RANK
from components.tasks.next_item import TASK as NEXT_ITEM

ROWS, TRIALS, RESAMPLES, LEVEL = 400, 150, 200, 0.025
# Three standard deviations of a binomial number above its mean.
MOST = TRIALS * LEVEL + 3 * np.sqrt(TRIALS * LEVEL * (1 - LEVEL))


def first(task: TaskDefinition, metrics: Mapping[str, Any], **parameters: Any) -> Decision:
    """The decision about a model without a champion."""
    nothing: Any = None
    score = task.score_in(metrics)
    assert score is not None
    candidate = Candidate(task.decision(**parameters), task, nothing, Path(), {}, metrics, score)
    return candidate.against(nothing, None).decision


def labels_of(positives: int) -> np.ndarray:
    return np.repeat([1, 0], [positives, ROWS - positives]).astype(np.int8)


def measured(labels: np.ndarray, random: np.random.Generator) -> dict[str, Any]:
    """The metrics of noise beside a baseline of noise."""
    found = resampled_auc(labels, [*random.random((2, ROWS))], samples=RESAMPLES)
    intervals = {"auc": (0, None), "controls_auc": (0, None), "baseline_auc": (1, None), "auc_above_baseline": (0, 1)}
    ends = [found.interval(*which).metrics(f"test_{name}") for name, which in intervals.items()]
    return {name: value for each in ends for name, value in each.items()} | {"test_positives": int(labels.sum())}


@pytest.mark.parametrize("require_baseline", [True, False])
@pytest.mark.parametrize("positives", [2, 5, 9, 10, 20, 50])
def test_noise_seldom_becomes_the_first_champion(positives: int, require_baseline: bool) -> None:
    random, labels, passed = np.random.default_rng(positives), labels_of(positives), 0
    for _ in range(TRIALS):
        decision = first(CLICK, measured(labels, random), auc_floor=0.5, require_baseline=require_baseline)
        passed += decision.alias == CHAMPION
        assert decision.positives == positives
        if positives < 10:
            why = "no interval: fewer than 10 units of the rarer class; the test split has"
            assert decision.reason.endswith(f"{why} {positives} positives.")
    assert passed <= (MOST if positives >= 10 else 0)


@pytest.mark.parametrize("positives", [2, 10, 20])
def test_noise_seldom_replaces_noise(positives: int) -> None:
    random, labels, passed = np.random.default_rng(positives), labels_of(positives), 0
    for _ in range(TRIALS):
        interval = auc_interval(labels, *random.random((2, ROWS)), samples=RESAMPLES)
        difference = Difference(CLICK.primary, 0.5 + interval.estimate, 0.5, interval, 0.95)
        passed += against_champion(3, difference, margin=0.0).alias == CHAMPION
    assert passed <= (MOST if positives >= 10 else 0)


@pytest.mark.parametrize("hits", [2, 10, 20])
def test_random_lists_seldom_become_the_first_champion(hits: int) -> None:
    random, passed = np.random.default_rng(hits), 0
    for _ in range(TRIALS):
        ranks, baseline = (np.where(random.permutation(ROWS) < hits, random.integers(1, 11, ROWS), 50) for _ in "ab")
        outputs = {RANK: ranks.astype(np.float32), LOG_LIKELIHOOD: np.zeros(ROWS, np.float32)}
        controlled = Controlled(Scores({}, outputs), {"baseline": baseline}, 100)
        metrics = NEXT_ITEM.measure(Scores({}, outputs, controlled=controlled), NEXT_ITEM.evaluation()).metrics
        passed += first(NEXT_ITEM, metrics).alias == CHAMPION
    assert passed <= (MOST if hits >= 10 else 0)
