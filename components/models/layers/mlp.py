"""Dense layers with rectifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.ops.dense import project


class Mlp(tf.Module):
    """Layers ``x = max(x W + b, 0)``, in the dtype of the inputs.

    Args:
        weights: source of fresh weights; W starts Glorot normal, b normal with variance 1 / units.
        inputs: width of x.
        units: width of each layer.
        linear_output: the last layer has no rectifier and computes in float32.

    Example:
        >>> Mlp(Weights(1), inputs=13, units=(512, 128))(tf.zeros([8, 13])).shape
        TensorShape([8, 128])
    """

    def __init__(self, weights: Weights, inputs: int, units: Sequence[int], linear_output: bool = False) -> None:
        super().__init__()
        self._linear_output = linear_output
        self.kernels, self.biases = [], []
        for number, (rows, columns) in enumerate(pairwise((inputs, *units))):
            scope = weights.scope(f"layer_{number}")
            self.kernels.append(scope.glorot_normal("kernel", (rows, columns)))
            self.biases.append(scope.normal("bias", (columns,), math.sqrt(1.0 / columns)))

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """``[B, inputs]`` to ``[B, units of the last layer]``."""
        last = len(self.kernels) - 1
        for number, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            if self._linear_output and number == last:
                return project(tf.cast(x, tf.float32), kernel, bias)
            x = tf.nn.relu(project(x, kernel, bias))
        return x
