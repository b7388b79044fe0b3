"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from components.models.optimizers.schedules import Rate, at


class Sgd(tf.Module):
    """``w = w - decay * w - lr * g``.

    Args:
        learning_rate: lr, a number or a schedule.
        weight_decay: decay, which the learning rate and its schedule do not scale.
    """

    keeps_sparse = False
    can_skip = True

    def __init__(self, learning_rate: Rate, weight_decay: float = 0.0) -> None:
        super().__init__(name="sgd")
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="steps")

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """There is no state beside the number of steps."""

    def apply(
        self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]], allowed: tf.Tensor | None = None
    ) -> None:
        """Takes one step, if it is allowed."""
        rate = at(self._learning_rate, tf.cast(self.steps, tf.float32))
        kept = 1.0 - self._weight_decay
        if allowed is not None:
            rate, kept = tf.where(allowed, rate, 0.0), tf.where(allowed, kept, 1.0)
        self.steps.assign_add(1 if allowed is None else tf.cast(allowed, tf.int64))
        for gradient, variable in gradients_and_variables:
            if self._weight_decay:
                variable.assign(variable * kept)
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(rate * gradient.values, gradient.indices))
            else:
                variable.assign_sub(rate * gradient)
