"""Layer normalisation."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.ops.choice import operation

# Added to the variance, as published for BERT and ELECTRA.
EPSILON = 1e-12


class LayerNorm(tf.Module):
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta`` over the last axis.

    Mean and variance are computed in float32; the result has the dtype of x.

    Args:
        weights: source of fresh weights; gamma starts at 1, beta at 0.
        width: size of the last axis.

    Examples:
        >>> LayerNorm(Weights(1), width=2)(tf.constant([[1.0, 3.0]])).numpy()
        array([[-1.,  1.]], dtype=float32)

    References:
        Ba et al., Layer Normalization, https://arxiv.org/abs/1607.06450
    """

    def __init__(self, weights: Weights, width: int) -> None:
        super().__init__()
        self.gamma = weights.constant("gamma", (width,), 1.0)
        self.beta = weights.constant("beta", (width,))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return layer_norm(x, self.gamma, self.beta)


@operation()
def layer_norm(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
    """The formula of ``LayerNorm``.

    Args:
        x: ``[..., width]``.
        gamma, beta: float32 ``[width]``.
    """
    values = tf.cast(x, tf.float32)
    centred = values - tf.reduce_mean(values, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
    return tf.cast(centred * tf.math.rsqrt(variance + EPSILON) * gamma + beta, x.dtype)
