"""The softmax over the rows of a table."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf


def cross_entropy_of_rows(states: tf.Tensor, table: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    """``-ln softmax(states T')[row]``, over all rows of a table T.

    With the probabilities p, the gradients are products of p with small matrices:

        d loss / d states = p T - T[row]        d loss / d T = p' states - states at row

    The logarithm of the softmax's denominator is ``max logit - ln max p``, since the largest p is at least 1 / rows.

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
        probabilities = tf.nn.softmax(logits)
        own = tf.reduce_sum(states * tf.gather(table, rows), 1)
        denominator = tf.reduce_max(logits, 1) - tf.math.log(tf.reduce_max(probabilities, 1))

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            scale = upstream[:, tf.newaxis]
            weighted = scale * states
            of_states = scale * (tf.matmul(probabilities, table) - tf.gather(table, rows))
            # The product of the transposed matrices is the faster one, the large matrix as it lies in memory.
            of_table = tf.transpose(tf.matmul(weighted, probabilities, transpose_a=True))
            return of_states, tf.tensor_scatter_nd_sub(of_table, rows[:, tf.newaxis], weighted)

        return denominator - own, gradient

    return compute(states, table)
