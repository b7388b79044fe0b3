"""The task trip_rmse: by how many minutes the model is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from components.errors import KfrecError
from components.metrics import Interval
from components.parameters import param
from components.report import Card, Story
from components.tasks import Exchange, Measured, Metric, NoParameters, Scores, Streaming, TaskDefinition

if TYPE_CHECKING:
    import tensorflow as tf

MINUTES = "minutes"


@dataclass(frozen=True)
class Decision:
    """Of the register step."""

    rmse_limit: float = param(1.0, "A first model must have a lower error than this", unit="minutes", at_least=0)


def _serve(outputs: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    return {f"predicted_{MINUTES}": outputs[MINUTES]}


def _streaming(training: bool, parameters: object) -> Streaming:
    import tensorflow as tf

    class Errors(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.sum_and_rows = tf.Variable(tf.zeros([2], tf.float64), trainable=False)

        def update(
            self,
            targets: Mapping[str, tf.Tensor],
            outputs: Mapping[str, tf.Tensor],
            kept: Mapping[str, tf.Tensor],
        ) -> None:
            squares = tf.cast(tf.square(outputs[MINUTES] - targets[MINUTES]), tf.float64)
            self.sum_and_rows.assign_add(tf.stack([tf.reduce_sum(squares), tf.cast(tf.size(squares), tf.float64)]))

        def reset(self) -> None:
            self.sum_and_rows.assign(tf.zeros([2], tf.float64))

        def totals(self, ranks: Exchange) -> list[tf.Tensor]:
            return [self.sum_and_rows.value()]

        def load(self, totals: Sequence[np.ndarray]) -> None:
            self.sum_and_rows.assign(totals[0])

        def result(self, totals: Sequence[np.ndarray]) -> dict[str, float]:
            squares, rows = totals[0].tolist()
            return {"rmse": (squares / rows) ** 0.5 if rows else float("nan")}

    return Errors()


def _require(scores: Scores, source: object) -> None:
    if not np.issubdtype(scores.labels.dtype, np.floating):
        raise KfrecError(f"{source}: the label is {scores.labels.dtype}, not float32; choose another task")


def _squares(scores: Scores) -> np.ndarray:
    return np.square(scores.outputs[f"predicted_{MINUTES}"].astype(np.float64) - scores.labels)


def _rmse(scores: Scores, parameters: NoParameters) -> float:
    return float(np.sqrt(_squares(scores).mean()))


def _measure(scores: Scores, parameters: NoParameters) -> Measured:
    return Measured({"test_rmse": _rmse(scores, parameters)}, {})


def _story(measured: Measured) -> Story:
    error = measured.metrics["test_rmse"]
    lead = "The root of the mean squared error; lower is better."
    return Story(f"Off by {error:.1f} minutes", lead, [Card("RMSE", error, "minutes", main=True)], [])


def _difference(
    ours: Scores, theirs: Scores, parameters: NoParameters, samples: int, confidence: float, seed: int
) -> Interval:
    """Paired bootstrap over trips."""
    squares = np.stack([_squares(ours), _squares(theirs)])
    random = np.random.default_rng(seed)

    def difference(drawn: np.ndarray | slice) -> float:
        first, second = np.sqrt(squares[:, drawn].mean(1))
        return float(first - second)

    drawn = [difference(random.integers(0, squares.shape[1], squares.shape[1])) for _ in range(samples)]
    tail = (1 - confidence) / 2
    return Interval(difference(slice(None)), *np.quantile(drawn, [tail, 1 - tail]).tolist())


TASK = TaskDefinition(
    name="trip_rmse",
    summary="By how many minutes the model is off.",
    metrics=(Metric("rmse", "RMSE", higher_is_better=False),),
    evaluation=NoParameters,
    decision=Decision,
    defaults={"registered_model": "trip-time", "promotion_margin": 0.05},
    kept=(),
    serve=_serve,
    streaming=_streaming,
    require=_require,
    measure=_measure,
    story=_story,
    value=_rmse,
    difference=_difference,
    floor=lambda parameters: parameters.rmse_limit,
)
