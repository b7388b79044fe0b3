"""A fully connected layer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.ops.dense import project

# Creates a kernel from the weights passed to it, its name and its shape.
Initial = Callable[[Weights, str, Sequence[int]], tf.Variable]


class Dense(tf.Module):
    """``x W + b`` over the last axis, in the dtype of the inputs.

    Args:
        weights: source of fresh weights; b starts at 0.
        inputs: width of x.
        outputs: width of the result.
        initial: creates W; Glorot uniform by default.
    """

    def __init__(self, weights: Weights, inputs: int, outputs: int, initial: Initial = Weights.glorot) -> None:
        super().__init__()
        self.kernel = initial(weights, "kernel", (inputs, outputs))
        self.bias = weights.constant("bias", (outputs,))

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        return project(inputs, self.kernel, self.bias)
