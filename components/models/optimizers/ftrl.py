"""FTRL-Proximal without regularisation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from components.models.ops.rows import sum_by_row
from components.models.ops.scaling import UNSCALED, Scaling
from components.models.optimizers.schedules import Rate, at
from components.models.optimizers.slots import STEPS, counter, slot


class Ftrl(tf.Module):
    """Follow the regularised leader, with per-weight learning rates.

    FTRL-Proximal with learning rate power -0.5 and regularisation l1 and l2 is

        n' = n + g²
        z' = z + g - (sqrt(n') - sqrt(n)) / lr * w
        w' = (sign(z') * l1 - z') / (sqrt(n') / lr + 2 * l2)    if |z'| > l1, else 0

    With l1 = l2 = 0, the published setting, z = -sqrt(n) / lr * w before and after a step, so z cancels:

        n' = n + g²
        w' = w - lr * g / sqrt(n')

    This form stores no z and starts from any weights; a gradient of 0 leaves a weight unchanged.

    Args:
        learning_rate: lr, a number or a schedule.
        initial_accumulator: n before the first step.

    References:
        McMahan et al., Ad Click Prediction: a View from the Trenches, KDD 2013, algorithm 1
    """

    # Sparse and dense gradients give the same result; small tables are cheaper to reduce whole.
    keeps_sparse = False
    takes_scaling = True

    def __init__(self, learning_rate: Rate, initial_accumulator: float = 0.1) -> None:
        super().__init__(name="ftrl")
        self._learning_rate = learning_rate
        self._initial_accumulator = initial_accumulator
        self.steps = counter(STEPS)
        self.accumulators: list[tf.Variable] = []

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the accumulator of every variable."""
        with tf.init_scope():
            self.accumulators = [slot(variable, "squares", self._initial_accumulator) for variable in variables]

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]], scaling: Scaling = UNSCALED) -> None:
        """Applies one step, unless ``scaling`` skips it; variables must have the same order in every call."""
        pairs = list(gradients_and_variables)
        if not self.accumulators:
            self.build([variable for _, variable in pairs])
        rate = at(self._learning_rate, tf.cast(self.steps, tf.float32))
        self.steps.assign_add(scaling.steps)
        for (gradient, variable), accumulator in zip(pairs, self.accumulators, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                rows, values = sum_by_row(gradient)
                values = scaling.true(values)
                summed = tf.gather(accumulator, rows) + tf.square(values)
                accumulator.scatter_update(tf.IndexedSlices(summed, rows))
                variable.scatter_sub(tf.IndexedSlices(rate * values * tf.math.rsqrt(summed), rows))
            else:
                values = scaling.true(gradient)
                summed = accumulator.assign_add(tf.square(values), read_value=True)
                variable.assign_sub(rate * values * tf.math.rsqrt(summed))
