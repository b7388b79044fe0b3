"""A fully connected layer."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.ops.dense import project


class Dense(tf.Module):
    """``x W + b`` over the last axis, in the dtype of the inputs.

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
