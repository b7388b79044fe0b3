"""The task watching: the log loss of the clicks, and by how many seconds the watch times are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from components.contract import LOGIT, PROBABILITY
from components.metrics import Interval, mean_interval
from components.parameters import param
from components.report import Card, Story
from components.tasks import Exchange, Measured, Metric, NoParameters, Scores, Streaming, TaskDefinition

if TYPE_CHECKING:
    import tensorflow as tf


@dataclass(frozen=True)
class Decision:
    """Of the register step."""

    loss_limit: float = param(0.69, "A first model must have a lower log loss than this", at_least=0)


def _serve(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    import tensorflow as tf

    return {PROBABILITY: tf.sigmoid(outputs[LOGIT]), "expected_seconds": outputs["seconds"]}


def _streaming(training: bool, parameters: object) -> Streaming:
    import tensorflow as tf

    class Losses(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sums = tf.Variable(tf.zeros([3], tf.float64), trainable=False)

        def update(
            self,
            targets: Mapping[str, tf.Tensor],
            outputs: Mapping[str, tf.Tensor],
            kept: Mapping[str, tf.Tensor],
        ) -> None:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(targets["clicked"], outputs[LOGIT])
            errors = tf.reduce_mean(tf.abs(outputs["seconds"] - targets["seconds"]), 1)
            sums = [tf.reduce_sum(losses), tf.reduce_sum(errors), tf.cast(tf.size(losses), tf.float32)]
            self.sums.assign_add(tf.cast(tf.stack(sums), tf.float64))

        def reset(self) -> None:
            self.sums.assign(tf.zeros([3], tf.float64))

        def totals(self, ranks: Exchange) -> list[tf.Tensor]:
            return [self.sums.value()]

        def load(self, totals: Sequence[np.ndarray]) -> None:
            self.sums.assign(totals[0])

        def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
            losses, errors, rows = totals[0].tolist()
            return {"logloss": losses / rows, "seconds": errors / rows} if rows else {}

    return Losses()


def _losses(scores: Scores) -> np.ndarray:
    right = np.where(scores.targets["clicked"] > 0, scores.outputs[PROBABILITY], 1 - scores.outputs[PROBABILITY])
    return -np.log(np.clip(right, 1e-7, 1).astype(np.float64))


def _value(scores: Scores, parameters: NoParameters) -> float:
    return float(_losses(scores).mean())


def _measure(scores: Scores, parameters: NoParameters) -> Measured:
    errors = np.abs(scores.outputs["expected_seconds"] - scores.targets["seconds"])
    by_third = {f"test_seconds_{third}": float(error) for third, error in enumerate(errors.mean(0), 1)}
    return Measured({"test_logloss": _value(scores, parameters), "test_seconds": float(errors.mean()), **by_third}, {})


def _story(measured: Measured) -> Story:
    loss, seconds = measured.metrics["test_logloss"], measured.metrics["test_seconds"]
    cards = [Card("Log loss", loss, "of the clicks", main=True), Card("Seconds", seconds, "mean absolute error")]
    return Story(f"Log loss {loss:.3f}, off by {seconds:.1f} s", "Lower is better for both.", cards, [])


def _difference(
    ours: Scores, theirs: Scores, parameters: NoParameters, samples: int, confidence: float, seed: int
) -> Interval:
    return mean_interval(_losses(ours) - _losses(theirs), samples=samples, confidence=confidence, seed=seed)


TASK = TaskDefinition(
    name="watching",
    summary="Clicks and watch times: log loss, mean absolute error of the seconds.",
    metrics=(
        Metric("logloss", "log loss", higher_is_better=False, is_loss=True),
        Metric("seconds", "error of the seconds", higher_is_better=False),
    ),
    evaluation=NoParameters,
    decision=Decision,
    defaults={"registered_model": "watching", "promotion_margin": 0.005},
    kept=(),
    serve=_serve,
    streaming=_streaming,
    require=lambda scores, source: None,
    measure=_measure,
    story=_story,
    value=_value,
    difference=_difference,
    floor=lambda parameters: parameters.loss_limit,
)
