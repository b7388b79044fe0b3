"""Click-through rate: one logit per sample; its sigmoid is the probability of a click. Evaluated by the ROC AUC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.contract import PROBABILITY, Metric
from components.feature_spec import Channel
from components.lazy import Lazy
from components.metrics import Interval, auc_interval, roc_auc
from components.parameters import param
from components.tasks.binary import BinaryDecision, BinaryEvaluation, require_both_classes, served
from components.tasks.binary.columns import telling_column
from components.tasks.binary.figures import compared
from components.tasks.catalogue import CATALOGUE, CatalogueEvaluation
from components.tasks.controls import below_baseline, not_above_guessing
from components.tasks.definition import Kept, Streaming, TaskDefinition
from components.tasks.pairing import PairDecision
from components.tasks.scores import Scores

AUC = Metric("auc", "AUC")
USER, HISTORY, POPULARITY, CATEGORY = "user", "history_length", "popularity", "category"


@dataclass(frozen=True)
class ClickEvaluation(CatalogueEvaluation, BinaryEvaluation):
    """Parameters of the evaluate step."""


@dataclass(frozen=True)
class ClickDecision(BinaryDecision, PairDecision):
    """Parameters of the register step."""

    auc_floor: float = param(
        0.6,
        "A first model needs a test AUC above this to become champion; unless it is below 0.5, every model needs one "
        "above guessing by more than chance",
        at_least=0,
        at_most=1,
    )


def _streaming(training: bool, parameters: object) -> Streaming:
    from components.tasks.binary.streaming import BinaryMetrics

    return BinaryMetrics(with_loss=not training)


def _difference(
    ours: Scores, theirs: Scores, parameters: object, samples: int, confidence: float, seed: int
) -> Interval:
    return auc_interval(
        ours.labels,
        ours.outputs[PROBABILITY],
        theirs.outputs[PROBABILITY],
        samples=samples,
        confidence=confidence,
        seed=seed,
        clusters=ours.kept.get(USER),
    )


_GUESSED = 0.5


def _of_guessing(metrics: Mapping[str, Any]) -> list[str]:
    low = metrics["test_auc_low"]
    return not_above_guessing(metrics, AUC, _GUESSED, None if low is None else low - _GUESSED)


TASK = TaskDefinition(
    name="click",
    summary="Whether a sample is clicked: ROC AUC, log loss, calibration.",
    metrics=(AUC, Metric("logloss", "log loss", higher_is_better=False, is_loss=True)),
    evaluation=ClickEvaluation,
    decision=ClickDecision,
    kept=(
        Kept(USER, Channel.USER, told_apart_by=Channel.POSITIVE),
        Kept(HISTORY, Channel.POSITIVE, counted=True),
        Kept(POPULARITY, Channel.TARGET, occurring_in=Channel.POSITIVE, exact_only=True),
        # An item's first feature is its id, the second its category.
        Kept(CATEGORY, Channel.TARGET, index=1, named=True, exact_only=True),
    ),
    serve=served,
    streaming=_streaming,
    require=require_both_classes,
    measure=Lazy("components.tasks.click.measure:measure"),
    story=Lazy("components.tasks.click.sections:story"),
    value=lambda scores, parameters: roc_auc(scores.labels, scores.outputs[PROBABILITY]),
    difference=_difference,
    compared=lambda ours, theirs: compared(ours, theirs, ours.kept.get(USER)),
    floor=lambda parameters: parameters.auc_floor,
    controls=Lazy("components.tasks.click.measure:controls"),
    remarks=lambda metrics: (*telling_column(metrics), *_of_guessing(metrics), *below_baseline(metrics, AUC)),
    vetoes=lambda metrics, parameters: _of_guessing(metrics) if parameters.auc_floor >= _GUESSED else (),
    baseline_vetoes=lambda metrics, parameters: below_baseline(metrics, AUC) if parameters.require_baseline else (),
    catalogue=CATALOGUE,
)
