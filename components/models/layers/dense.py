"""A fully connected layer."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.weights import Weights


def project(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    """``inputs @ kernel + bias`` over the last axis, as one matrix product however many axes come before.

    The bias is added to the product itself, before it gets its axes back: so TensorFlow makes one operation of both.

    Args:
        inputs: ``[..., I]``.
        kernel: ``[I, O]``, cast to the type of the inputs.
        bias: ``[O]``, cast to the type of the inputs, or None.

    Returns:
        ``[..., O]``.
    """
    kernel = tf.cast(kernel, inputs.dtype)
    rows = tf.matmul(inputs if inputs.shape.rank == 2 else tf.reshape(inputs, [-1, kernel.shape[0]]), kernel)
    if bias is not None:
        rows = tf.nn.bias_add(rows, tf.cast(bias, inputs.dtype))
    if inputs.shape.rank == 2:
        return rows
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
        return project(inputs, self.kernel, self.bias)
