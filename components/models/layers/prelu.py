"""The parametric rectifier."""

from __future__ import annotations

import tensorflow as tf

from components.models.kernels import rectified
from components.models.layers.weights import Weights


class PReLU(tf.Module):
    """``max(x, 0) + alpha * min(x, 0)``, with one learned alpha a unit.

    Args:
        weights: source of fresh weights; alpha starts at 0.1.
        units: size of the last axis.

    References:
        He et al., Delving Deep into Rectifiers, https://arxiv.org/abs/1502.01852
    """

    def __init__(self, weights: Weights, units: int) -> None:
        super().__init__()
        self.alpha = weights.constant("alpha", (units,), 0.1)

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        if rectified.fits(inputs):
            return rectified.rectified(inputs, self.alpha)
        return tf.nn.relu(inputs) - tf.cast(self.alpha, inputs.dtype) * tf.nn.relu(-inputs)
