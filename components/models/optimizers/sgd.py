"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from components.models.ops.scaling import UNSCALED, Scaling
from components.models.optimizers.schedules import Rate, at
from components.models.optimizers.slots import STEPS, counter


class Sgd(tf.Module):
    """``w = w - decay * w - lr * g``.

    Args:
        learning_rate: lr, a number or a schedule.
        weight_decay: decay, independent of the learning rate and its schedule.
    """

    keeps_sparse = False
    takes_scaling = True

    def __init__(self, learning_rate: Rate, weight_decay: float = 0.0) -> None:
        super().__init__(name="sgd")
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self.steps = counter(STEPS)

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Does nothing: the only state is the step counter."""

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]], scaling: Scaling = UNSCALED) -> None:
        """Applies one step, unless ``scaling`` skips it."""
        rate = at(self._learning_rate, tf.cast(self.steps, tf.float32))
        self.steps.assign_add(scaling.steps)
        for gradient, variable in gradients_and_variables:
            if self._weight_decay:
                variable.assign(variable * scaling.kept(1.0 - self._weight_decay))
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(rate * scaling.true(gradient.values), gradient.indices))
            else:
                variable.assign_sub(rate * scaling.true(gradient))
