"""Ranking: which samples of a group, such as the ads of a display, are clicked, evaluated by MAP@k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from components.contract import PROBABILITY, Metric
from components.errors import KfrecError
from components.feature_spec import Channel
from components.lazy import Lazy
from components.metrics import Interval, RankedGroups, mean_interval
from components.parameters import param
from components.tasks.binary import BinaryDecision, BinaryEvaluation, require_both_classes, served
from components.tasks.binary.figures import compared
from components.tasks.controls import below_baseline, not_above_guessing
from components.tasks.definition import Kept, TaskDefinition
from components.tasks.scores import Scores

GROUP = "group"
MAP = Metric("map", "MAP@k", of_groups=True, k="map_k")


@dataclass(frozen=True)
class RankingTraining:
    """Parameters of the train step."""

    map_k: int = param(
        12, "Positions of a group's ranking that MAP@k counts", unit="positions", at_least=1, at_most=100_000
    )


@dataclass(frozen=True)
class RankingEvaluation(BinaryEvaluation, RankingTraining):
    """Parameters of the evaluate step."""


@dataclass(frozen=True)
class RankingDecision(BinaryDecision):
    """Parameters of the register step."""

    map_floor: float = param(
        0.01,
        "A first model needs a test MAP@k above that of guessing by more than this to become champion; unless it is "
        "negative, every model needs one above guessing by more than chance",
        at_least=-1,
        at_most=1,
    )


def _require(scores: Scores, source: object) -> None:
    require_both_classes(scores, source)
    if scores.kept[GROUP].min() == scores.kept[GROUP].max():
        raise KfrecError(
            f"{source}: all {len(scores.labels)} test samples are in group {scores.kept[GROUP][0]}; the channel "
            f"{Channel.GROUP} tells which samples are ranked against each other"
        )
    groups, clicked = scores.kept[GROUP], scores.labels > 0
    if not len(np.intersect1d(groups[clicked], groups[~clicked])):
        raise KfrecError(
            f"{source}: no group of the test samples has both a click and another sample, so any ranking has MAP@k 1; "
            "correct the group, or evaluate with --task click"
        )


def _of_guessing(metrics: Mapping[str, Any]) -> Sequence[str]:
    """One sentence if the model ranks no better than guessing, whose MAP is high where most samples are clicked."""
    guessed, low = metrics["test_map_of_guessing"], metrics["test_map_above_guessing_low"]
    return not_above_guessing(metrics, MAP.at(metrics), guessed, low)


def _precisions(scores: Scores, k: int) -> np.ndarray:
    return RankedGroups(scores.labels, scores.outputs[PROBABILITY], scores.kept[GROUP]).average_precision(k)


def _difference(
    ours: Scores, theirs: Scores, parameters: RankingEvaluation, samples: int, confidence: float, seed: int
) -> Interval:
    """Paired bootstrap over groups with a click; other groups have no average precision."""
    gains = _precisions(ours, parameters.map_k) - _precisions(theirs, parameters.map_k)
    return mean_interval(gains, samples=samples, confidence=confidence, seed=seed)


TASK = TaskDefinition(
    name="ranking",
    summary="Which samples of a group are clicked: MAP@k, ROC AUC, log loss, accuracy.",
    metrics=(
        MAP,
        Metric("auc", "AUC"),
        Metric("logloss", "log loss", higher_is_better=False, is_loss=True),
        Metric("accuracy", "accuracy"),
    ),
    training=RankingTraining,
    evaluation=RankingEvaluation,
    decision=RankingDecision,
    defaults={"registered_model": "kfrec-ranking"},
    kept=(Kept(GROUP, Channel.GROUP, needed_for="MAP@k"),),
    serve=served,
    streaming=Lazy("components.tasks.ranking.streaming:RankingMetrics"),
    require=_require,
    measure=Lazy("components.tasks.ranking.measure:measure"),
    story=Lazy("components.tasks.ranking.sections:story"),
    value=lambda scores, parameters: float(_precisions(scores, parameters.map_k).mean()),
    difference=_difference,
    compared=lambda ours, theirs: compared(ours, theirs, ours.kept[GROUP]),
    floor=lambda parameters: parameters.map_floor,
    guessing=itemgetter("test_map_of_guessing"),
    controls=Lazy("components.tasks.ranking.measure:controls"),
    remarks=lambda metrics: (*_of_guessing(metrics), *below_baseline(metrics, MAP.at(metrics))),
    vetoes=lambda metrics, parameters: _of_guessing(metrics) if parameters.map_floor >= 0 else (),
    baseline_vetoes=lambda metrics, parameters: (
        below_baseline(metrics, MAP.at(metrics)) if parameters.require_baseline else ()
    ),
)
