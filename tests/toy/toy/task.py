"""The task toy_hit: how often the model is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.contract import LOGIT
from components.metrics import Interval
from components.report import Card, Story
from components.steps.parameter import param
from components.tasks import Exchange, Measured, Metric, Scores, Streaming, TaskDefinition


@dataclass(frozen=True)
class Evaluation:
    """Of the evaluate step."""

    threshold: float = param(0.5, "Scores from here on count as a hit", at_least=0, at_most=1)


@dataclass(frozen=True)
class Decision:
    """Of the register step."""

    hit_floor: float = param(0.55, "A first model has to be right more often than this", at_least=0, at_most=1)


def _streaming(training: bool, parameters: object) -> Streaming:
    import tensorflow as tf

    class Hits(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.right_and_all = tf.Variable(tf.zeros([2], tf.float64), trainable=False)

        def update(
            self,
            targets: Mapping[str, tf.Tensor],
            outputs: Mapping[str, tf.Tensor],
            kept: Mapping[str, tf.Tensor],
        ) -> None:
            labels = targets["taken"]
            right = tf.cast(tf.equal(labels > 0.5, outputs[LOGIT] > 0), tf.float64)
            self.right_and_all.assign_add(tf.stack([tf.reduce_sum(right), tf.cast(tf.size(labels), tf.float64)]))

        def reset(self) -> None:
            self.right_and_all.assign(tf.zeros([2], tf.float64))

        def totals(self, ranks: Exchange) -> list[tf.Tensor]:
            return [self.right_and_all.value()]

        def load(self, totals: Sequence[np.ndarray]) -> None:
            self.right_and_all.assign(totals[0])

        def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
            right, every = totals[0].tolist()
            return {"hit_rate": right / every if every else float("nan")}

    return Hits()


def _serve(outputs):  # type: ignore[no-untyped-def]
    import tensorflow as tf

    return {"chance": tf.sigmoid(outputs[LOGIT])}


def _hits(scores: Scores, threshold: float) -> np.ndarray:
    return (scores.outputs["chance"] >= threshold) == (scores.labels > 0)


def _measure(scores: Scores, parameters: Evaluation) -> Measured:
    return Measured({"test_hit_rate": float(_hits(scores, parameters.threshold).mean())}, {})


def _story(measured: Measured) -> Story:
    rate = measured.metrics["test_hit_rate"]
    return Story(f"Right {rate:.1%}", "How often the model is right.", [Card("Hit rate", rate, "", main=True)], [])


def _difference(
    ours: Scores, theirs: Scores, parameters: Evaluation, samples: int, confidence: float, seed: int
) -> Interval:
    gain = _hits(ours, parameters.threshold).astype(float) - _hits(theirs, parameters.threshold)
    random = np.random.default_rng(seed)
    drawn = [gain[random.integers(0, len(gain), len(gain))].mean() for _ in range(samples)]
    tail = (1 - confidence) / 2
    return Interval(float(gain.mean()), *np.quantile(drawn, [tail, 1 - tail]).tolist())


TASK = TaskDefinition(
    name="toy_hit",
    summary="How often the model is right.",
    metrics=(Metric("hit_rate", "hit rate"),),
    evaluation=Evaluation,
    decision=Decision,
    kept=(),
    serve=_serve,
    streaming=_streaming,
    require=lambda scores, source: None,
    measure=_measure,
    story=_story,
    value=lambda scores, parameters: float(_hits(scores, parameters.threshold).mean()),
    difference=_difference,
    floor=lambda parameters: parameters.hit_floor,
)
