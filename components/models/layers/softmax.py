"""The softmax over the rows of a table."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def cross_entropy_of_rows(states: tf.Tensor, table: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """``-ln softmax(states T')[row]``, over all rows of a table T.

    With ``e = exp(logits - max)`` and its sums s, the gradients are products of ``e`` with small matrices scaled by
    1 / s, so the probabilities, the largest array, are never written:

        d loss / d states = e T / s - T[row]        d loss / d T = e' (states / s) - states at row

    Args:
        states: float32 ``[n, width]``.
        table: float32 ``[rows, width]``.
        rows: the wanted row of each state, ``[n]``.

    Returns:
        float32 ``[n]``.
    """

    @tf.custom_gradient
    def compute(
        states: tf.Tensor, table: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
        logits = tf.matmul(states, table, transpose_b=True)
        largest = tf.reduce_max(logits, 1, keepdims=True)
        own = tf.gather(logits, rows, batch_dims=1)
        exponentials = tf.exp(logits - largest)
        sums = tf.reduce_sum(exponentials, 1, keepdims=True)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            scale = upstream[:, tf.newaxis] / sums
            of_states = scale * tf.matmul(exponentials, table) - upstream[:, tf.newaxis] * tf.gather(table, rows)
            of_table = tf.matmul(exponentials, scale * states, transpose_a=True)
            wanted = upstream[:, tf.newaxis] * states
            return of_states, tf.tensor_scatter_nd_sub(of_table, rows[:, tf.newaxis], wanted)

        return tf.math.log(sums[:, 0]) + largest[:, 0] - own, gradient

    return compute(states, table)
