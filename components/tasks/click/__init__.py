"""Click-through rate: one output a sample, whose sigmoid is the probability of a click, judged by the ROC AUC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from components.errors import KfrecError
from components.feature_spec import Channel
from components.metrics import Interval, auc_difference_interval, roc_auc
from components.report import Story
from components.tasks.click.parameters import ClickDecision, ClickEvaluation
from components.tasks.definition import Kept, Measured, Metric, Scores, Streaming, TaskDefinition

if TYPE_CHECKING:
    import tensorflow as tf

USER, HISTORY = "user", "history_length"


def _serve(logits: tf.Tensor) -> tf.Tensor:
    import tensorflow as tf

    return tf.sigmoid(logits)


def _streaming(training: bool) -> Streaming:
    from components.tasks.click.streaming import ClickMetrics

    return ClickMetrics(with_loss=not training)


def _require_both_classes(labels: np.ndarray, source: object) -> None:
    positives = int(np.count_nonzero(labels))
    if positives in (0, len(labels)):
        raise KfrecError(
            f"{source}: all {len(labels)} test samples have label {int(positives > 0)}, so nothing can be ranked; "
            "give a test split with both classes"
        )


def _measure(scores: Scores, parameters: ClickEvaluation) -> Measured:
    from components.tasks.click.measure import measure

    return measure(scores, parameters.calibration_bins)


def _story(measured: Measured) -> Story:
    from components.tasks.click.sections import story

    return story(measured)


def _difference(scores: Scores, rival: np.ndarray, samples: int, confidence: float, seed: int) -> Interval:
    return auc_difference_interval(
        scores.labels,
        scores.values,
        rival,
        samples=samples,
        confidence=confidence,
        seed=seed,
        clusters=scores.kept.get(USER),
    )


TASK = TaskDefinition(
    name="click",
    summary="Whether a sample is clicked: ROC AUC, log loss, calibration.",
    metrics=(Metric("auc", "AUC"), Metric("logloss", "log loss", higher_is_better=False, is_loss=True)),
    evaluation=ClickEvaluation,
    decision=ClickDecision,
    kept=(Kept(USER, Channel.USER), Kept(HISTORY, Channel.POSITIVE, counted=True)),
    output="probability",
    serve=_serve,
    streaming=_streaming,
    require=_require_both_classes,
    measure=_measure,
    story=_story,
    value=lambda scores: roc_auc(scores.labels, scores.values),
    difference=_difference,
    floor=lambda parameters: parameters.auc_floor,
)
