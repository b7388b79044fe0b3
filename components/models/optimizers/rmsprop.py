"""RMSProp."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from components.models.ops.rows import sum_by_row
from components.models.ops.scaling import UNSCALED, Scaling
from components.models.optimizers.schedules import Rate, at
from components.models.optimizers.slots import STEPS, counter, slot

EPSILON = 1e-7
# The mean squares are stored divided by a factor down to this power of ten.
_DIGITS = 9


class RmsProp(tf.Module):
    """RMSProp without momentum.

        s = rho s + (1 - rho) g²
        w = w - lr * g / (sqrt(s) + 1e-7)

    Rows missing from a sparse gradient have gradient 0: their weights stay, and their s decays. Because every s of a
    table decays equally, the state is u with s = f u, and a step multiplies the scalar f by rho without touching the
    other rows. Before f underflows, in every 30th call at rho = 0.5, u is multiplied by f and f is reset to 1.

    Args:
        learning_rate: lr, a number or a schedule.
        rho: decay rate of s, above 0 and below 1.

    References:
        Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5; the form is that of Keras.
    """

    keeps_sparse = False
    takes_scaling = True

    def __init__(self, learning_rate: Rate, rho: float = 0.9) -> None:
        super().__init__(name="rmsprop")
        self._learning_rate = learning_rate
        self._rho = rho
        self._period = max(1, math.ceil(_DIGITS / -math.log10(rho)))
        self.steps = counter(STEPS)
        with tf.device("CPU"):  # on the CPU, so that the reset of f does not wait for a GPU
            self.calls = tf.Variable(0, dtype=tf.int64, trainable=False, name="calls")
        self.factor = tf.Variable(1.0, trainable=False, name="factor")
        self.squares: list[tf.Variable] = []

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the mean squares u of every variable."""
        with tf.init_scope():
            self.squares = [slot(variable, "squares") for variable in variables]

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]], scaling: Scaling = UNSCALED) -> None:
        """Applies one step, unless ``scaling`` skips it; variables must have the same order in every call."""
        pairs = list(gradients_and_variables)
        if not self.squares:
            self.build([variable for _, variable in pairs])
        rate = at(self._learning_rate, tf.cast(self.steps, tf.float32))
        self.steps.assign_add(scaling.steps)
        self.factor.assign(self.factor * scaling.kept(self._rho))
        calls = self.calls.assign_add(1, read_value=True)
        tf.cond(tf.math.floormod(calls, self._period) == 0, self._fade, lambda: None)
        factor = tf.identity(self.factor)
        for (gradient, variable), squares in zip(pairs, self.squares, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                rows, values = sum_by_row(gradient)
                values = scaling.true(values)
                new = tf.gather(squares, rows) + self._share(values, factor)
                squares.scatter_update(tf.IndexedSlices(new, rows))
                variable.scatter_sub(tf.IndexedSlices(_change(rate, values, factor * new), rows))
            else:
                values = scaling.true(gradient)
                new = squares.assign_add(self._share(values, factor), read_value=True)
                variable.assign_sub(_change(rate, values, factor * new))

    def _fade(self) -> None:
        for squares in self.squares:
            squares.assign(squares * self.factor)
        self.factor.assign(1.0)

    def _share(self, gradient: tf.Tensor, factor: tf.Tensor) -> tf.Tensor:
        """What a gradient adds to u."""
        return (1.0 - self._rho) / factor * tf.square(gradient)


def _change(rate: float | tf.Tensor, gradient: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    return rate * gradient / (tf.sqrt(squares) + EPSILON)
