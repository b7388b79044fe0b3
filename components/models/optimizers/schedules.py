"""Learning rates that change with the step.

A schedule takes the number of steps taken so far, a scalar float32, and returns a scalar float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

Schedule = Callable[["tf.Tensor"], "tf.Tensor"]
Rate = float | Schedule


def at(rate: Rate, step: tf.Tensor) -> float | tf.Tensor:
    """The learning rate of the step after ``step`` steps; a number is a constant."""
    return rate(step) if callable(rate) else rate


def warm_up(peak: float, steps: int, after: Rate | None = None) -> Schedule:
    """``peak * s / steps`` while s < steps; then the schedule ``after``, with s from the beginning, or the peak."""

    def schedule(step: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        later = at(peak if after is None else after, step)
        return tf.where(step < steps, peak * step / max(steps, 1), later)

    return schedule


def polynomial_decay(start: float, begin: int, end: int, power: float = 2.0) -> Schedule:
    """``start`` until step ``begin``, then ``start * ((end - s) / (end - begin)) ** power``, 0 from ``end`` on."""

    def schedule(step: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        left = tf.clip_by_value((end - step) / float(end - begin), 0.0, 1.0)
        return start * tf.pow(left, power)

    return schedule


def piecewise(pieces: Sequence[tuple[int, float]]) -> Schedule:
    """Piecewise constant: (first step, rate) pairs; the first step of the first pair is 0."""

    def schedule(step: tf.Tensor) -> tf.Tensor:
        import tensorflow as tf

        rate = tf.constant(pieces[0][1], tf.float32)
        for begin, value in pieces[1:]:
            rate = tf.where(step >= begin, value, rate)
        return rate

    return schedule


def training_steps(parameters: Any, steps_per_epoch: int) -> int:
    """Steps of a whole training, by the parameters of its loop."""
    steps: int = parameters.epochs * steps_per_epoch
    return min(steps, parameters.max_steps) if parameters.max_steps else steps


def rise_and_fall(peak: float, steps: int, warmup_share: float, power: float = 1.0) -> Schedule:
    """Warm-up from 0 to the peak over a share of the steps, then a decay to 0 at the last one.

    peak * s / w                                    while s < w = round(warmup_share * steps)
    peak * ((steps - s) / (steps - w)) ** power     until s = steps
    """
    rising = round(warmup_share * steps)
    return warm_up(peak, rising, polynomial_decay(peak, rising, max(steps, rising + 1), power))
