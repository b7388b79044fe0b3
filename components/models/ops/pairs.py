"""A small network that scores pairs, such as a state and an item."""

from __future__ import annotations

import tensorflow as tf

from components.models.ops.choice import operation
from components.models.ops.dense import project


@operation()
def scaled(items: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """Items ``[T, B, D]`` times the target ``[B, D]``."""
    return items * target


@operation()
def score_pairs(
    x: tf.Tensor,
    y: tf.Tensor,
    share: tf.Tensor,
    of_x: tf.Tensor,
    of_y: tf.Tensor,
    *layers: tf.Tensor,
) -> tf.Tensor:
    """Scores x paired with each of N y by a network with sigmoid hidden layers.

        score = sigmoid(sigmoid(x Wx + y Wy + share) W2 + b2) W3 + b3

    The first layer is linear in its operands, so x is multiplied once for all y.

    Args:
        x: ``[T or more, B, I]``; only the first T steps are read.
        y: ``[N, T, B, J]``.
        share: added to the first layer, such as its bias: ``[F1]``, or ``[B, F1]`` per sample.
        of_x: Wx ``[I, F1]``.
        of_y: Wy ``[J, F1]``.
        layers: weights and bias of the following layers, ``[F1, F2]`` and ``[F2]``; the last one has 1 unit.

    Returns:
        float32 ``[N, T, B]``.
    """
    steps = y.shape[1]
    # tf.split, because the gradient of a slice over the first axis is many times slower.
    read = x if x.shape[0] == steps else tf.split(x, [steps, -1])[0]
    hidden = project(read, of_x) + project(y, of_y) + tf.cast(share, x.dtype)
    rows = tf.reshape(hidden, [-1, of_x.shape[-1]])
    for kernel, bias in zip(layers[::2], layers[1::2], strict=True):
        rows = project(tf.sigmoid(rows), kernel, bias)
    return tf.cast(tf.reshape(rows, tf.shape(y)[:-1]), tf.float32)
