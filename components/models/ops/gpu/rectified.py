"""Dense layers with parametric rectifiers, on a GPU."""

from __future__ import annotations

import tensorflow as tf

from components.models.ops.choice import fused_with_gradient
from components.models.ops.dense import project


def rectified_layers(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
    """See :func:`components.models.ops.dense.rectified_layers`; one fused kernel between two products."""
    layers, output = weights[: len(weights) // 3 * 3], weights[len(weights) // 3 * 3 :]
    for kernel, bias, alpha in zip(layers[::3], layers[1::3], layers[2::3], strict=True):
        x = rectified(project(x, kernel), tf.convert_to_tensor(bias), tf.convert_to_tensor(alpha))
    return project(tf.cast(x, tf.float32), *output) if output else x


@fused_with_gradient
def rectified(product: tf.Tensor, bias: tf.Tensor, alpha: tf.Tensor) -> tf.Tensor:
    """``z = product + bias``, ``max(z, 0) + alpha * min(z, 0)``; gradients of bias and alpha accumulate in float32.

    Args:
        product: ``[B, units]``.
        bias, alpha: float32 ``[units]``.
    """
    z = tf.cast(product, tf.float32) + bias
    return tf.cast(tf.nn.relu(z) - alpha * tf.nn.relu(-z), product.dtype)
