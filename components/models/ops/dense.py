"""Products with weights, dense layers with parametric rectifiers, and a small network that scores pairs."""

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
