"""Click-through rate: one logit per sample; its sigmoid is the probability of a click. Evaluated by the ROC AUC."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from components.feature_spec import Channel
from components.lazy import Lazy
from components.metrics import Interval, auc_interval, roc_auc
from components.report import Section
from components.tasks.binary import require_both_classes
from components.tasks.click.parameters import ClickDecision, ClickEvaluation
from components.tasks.definition import (
    PROBABILITY,
    CatalogueMeasure,
    Kept,
    Measured,
    Metric,
    Scores,
    Streaming,
    TaskDefinition,
)

USER, HISTORY, POPULARITY, CATEGORY = "user", "history_length", "popularity", "category"


def _streaming(training: bool, parameters: object) -> Streaming:
    from components.tasks.binary.streaming import BinaryMetrics

    return BinaryMetrics(with_loss=not training)


def _measure(scores: Scores, parameters: ClickEvaluation) -> Measured:
    from components.tasks.click.measure import measure

    return measure(scores, parameters.calibration_bins)


def _difference(
    scores: Scores, rival: np.ndarray, parameters: object, samples: int, confidence: float, seed: int
) -> Interval:
    return auc_interval(
        scores.labels,
        scores.values,
        rival,
        samples=samples,
        confidence=confidence,
        seed=seed,
        clusters=scores.kept.get(USER),
    )


def _compared(scores: Scores, rival: np.ndarray) -> Sequence[Section]:
    from components.tasks.binary.comparison import compared

    return compared(scores.labels, scores.values, rival, scores.kept.get(USER))


TASK = TaskDefinition(
    name="click",
    summary="Whether a sample is clicked: ROC AUC, log loss, calibration.",
    metrics=(Metric("auc", "AUC"), Metric("logloss", "log loss", higher_is_better=False, is_loss=True)),
    evaluation=ClickEvaluation,
    decision=ClickDecision,
    kept=(
        Kept(USER, Channel.USER, told_apart_by=Channel.POSITIVE),
        Kept(HISTORY, Channel.POSITIVE, counted=True),
        Kept(POPULARITY, Channel.TARGET, occurring_in=Channel.POSITIVE, exact_only=True),
        # An item's first feature is its id, the second its category.
        Kept(CATEGORY, Channel.TARGET, place=1, named=True, exact_only=True),
    ),
    output=PROBABILITY,
    serve=Lazy("tensorflow:sigmoid"),
    streaming=_streaming,
    require=require_both_classes,
    measure=_measure,
    story=Lazy("components.tasks.click.sections:story"),
    value=lambda scores, parameters: roc_auc(scores.labels, scores.values),
    difference=_difference,
    compared=_compared,
    floor=lambda parameters: parameters.auc_floor,
    controls=Lazy("components.tasks.click.controls:controls"),
    remarks=Lazy("components.tasks.click.controls:remarks"),
    vetoes=Lazy("components.tasks.click.controls:vetoes"),
    catalogue=CatalogueMeasure(
        users=lambda parameters: parameters.catalogue_users,
        scores=lambda parameters: parameters.catalogue_scores,
        top=lambda parameters: parameters.catalogue_top,
        measure=Lazy("components.tasks.click.catalogue:measure_catalogue"),
    ),
)
