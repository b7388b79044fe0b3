"""RMSProp."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from components.models.ops.rows import sum_by_row
from components.models.optimizers.schedules import Rate, at

EPSILON = 1e-7


class RmsProp(tf.Module):
    """RMSProp without momentum.

        s = rho s + (1 - rho) g²
        w = w - lr * g / (sqrt(s) + 1e-7)

    A sparse gradient counts as 0 in the rows it does not name: their weights stay, their s fades. The fading waits
    until a row is named again and is then ``rho ** steps since``, so that a step costs the rows of the batch and not
    those of the table.

    Args:
        learning_rate: lr, a number or a schedule.
        rho: share of s that a step keeps.

    References:
        Tieleman and Hinton, Neural Networks for Machine Learning, lecture 6.5; the form is that of Keras.
    """

    keeps_sparse = False

    def __init__(self, learning_rate: Rate, rho: float = 0.9) -> None:
        super().__init__(name="rmsprop")
        self._learning_rate = learning_rate
        self._rho = rho
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="steps")
        # Of each variable the mean squares, and the step that each of its rows is at.
        self.squares: list[tuple[tf.Variable, tf.Variable]] = []

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Makes the mean squares of every variable."""
        with tf.init_scope():
            self.squares = [
                (
                    tf.Variable(tf.zeros_like(v), trainable=False),
                    tf.Variable(tf.zeros(v.shape[:1], tf.int64), trainable=False),
                )
                for v in variables
            ]

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]]) -> None:
        """Takes one step; the variables come in the same order in every call."""
        pairs = list(gradients_and_variables)
        if not self.squares:
            self.build([variable for _, variable in pairs])
        rate = at(self._learning_rate, tf.cast(self.steps, tf.float32))
        step = self.steps.assign_add(1, read_value=True)
        for (gradient, variable), (squares, steps) in zip(pairs, self.squares, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                rows, values = sum_by_row(gradient)
                new = self._mean_squares(tf.gather(squares, rows), tf.gather(steps, rows), step, values)
                squares.scatter_update(tf.IndexedSlices(new, rows))
                steps.scatter_update(tf.IndexedSlices(tf.fill(tf.shape(rows), step), rows))
                variable.scatter_sub(tf.IndexedSlices(_change(rate, values, new), rows))
            else:
                new = squares.assign(self._mean_squares(squares, steps, step, gradient), read_value=True)
                steps.assign(tf.fill(steps.shape, step))
                variable.assign_sub(_change(rate, gradient, new))

    def _mean_squares(self, squares: tf.Tensor, steps: tf.Tensor, step: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
        """Those after ``step``, of rows that are at ``steps``."""
        kept = tf.pow(self._rho, tf.cast(step - steps, tf.float32))
        each = tf.reshape(
            kept, tf.concat([tf.shape(kept), tf.ones([gradient.shape.rank - kept.shape.rank], tf.int32)], 0)
        )
        return each * squares + (1.0 - self._rho) * tf.square(gradient)


def _change(rate: float | tf.Tensor, gradient: tf.Tensor, squares: tf.Tensor) -> tf.Tensor:
    return rate * gradient / (tf.sqrt(squares) + EPSILON)
