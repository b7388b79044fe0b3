"""Products with weights, and dense layers with parametric rectifiers."""

from __future__ import annotations

import tensorflow as tf

from components.models.ops.choice import operation


def project(inputs: tf.Tensor, kernel: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    """``inputs @ kernel + bias`` over the last axis, as one matrix product for any number of leading axes.

    The bias is added before the result is reshaped, so that TensorFlow fuses MatMul and BiasAdd.

    Args:
        inputs: ``[..., I]``.
        kernel: ``[I, O]``, cast to the dtype of the inputs.
        bias: ``[O]``, cast to the dtype of the inputs, or None.

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


@operation()
def rectified_layers(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
    """Layers ``z = x W + b``, ``x = max(z, 0) + alpha * min(z, 0)``; optionally followed by a linear float32 output.

    Args:
        x: ``[B, inputs]``.
        weights: W ``[inputs, units]``, b ``[units]`` and alpha ``[units]`` of each layer; then, for an output layer,
            W ``[units, 1]`` and b ``[1]``.

    Returns:
        ``[B, units of the last layer]``, or float32 ``[B, 1]`` with an output layer.
    """
    layers, output = weights[: len(weights) // 3 * 3], weights[len(weights) // 3 * 3 :]
    for kernel, bias, alpha in zip(layers[::3], layers[1::3], layers[2::3], strict=True):
        z = project(x, kernel, bias)
        x = tf.nn.relu(z) - tf.cast(alpha, z.dtype) * tf.nn.relu(-z)
    return project(tf.cast(x, tf.float32), *output) if output else x
