"""A fully connected layer."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.weights import Weights


def project(inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """``inputs @ kernel`` over the last axis, as one matrix product however many axes come before.

    Args:
        inputs: ``[..., I]``.
        kernel: ``[I, O]``, cast to the type of the inputs.

    Returns:
        ``[..., O]``.
    """
    kernel = tf.cast(kernel, inputs.dtype)
    if inputs.shape.rank == 2:
        return tf.matmul(inputs, kernel)
    rows = tf.matmul(tf.reshape(inputs, [-1, kernel.shape[0]]), kernel)
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [kernel.shape[1]]], 0))


class Dense(tf.Module):
    """``x W + b`` over the last axis, in the type of the inputs.

    Args:
        weights: source of fresh weights; W starts Glorot uniform, b at 0.
        inputs: width of x.
        outputs: width of the result.
    """

    def __init__(self, weights: Weights, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = weights.glorot("kernel", (inputs, outputs))
        self.bias = weights.constant("bias", (outputs,))

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        return tf.nn.bias_add(project(inputs, self.kernel), tf.cast(self.bias, inputs.dtype))
