"""Dense layers with rectifiers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import tensorflow as tf

from components.models.layers.batch_normalization import BatchNormalization
from components.models.layers.dropout import Dropout
from components.models.layers.weights import Weights
from components.models.ops.dense import project


class Mlp(tf.Module):
    """Layers ``x = max(x W + b, 0)``, in the dtype of the inputs; optionally ``x W + b`` is batch-normalised first.

    Args:
        weights: source of fresh weights; W starts Glorot normal, b normal with variance 1 / units.
        inputs: width of x.
        units: width of each layer.
        linear_output: the last layer is linear, is not normalised, and computes in float32.
        batch_normalization: whether to normalise before the rectifier.
        dropout_rate: share of the rectified units dropped in training, of all layers but the last; 0 is none.

    Examples:
        >>> Mlp(Weights(1), inputs=13, units=(512, 128))(tf.zeros([8, 13])).shape
        TensorShape([8, 128])
    """

    def __init__(
        self,
        weights: Weights,
        inputs: int,
        units: Sequence[int],
        linear_output: bool = False,
        batch_normalization: bool = False,
        dropout_rate: float = 0.0,
    ) -> None:
        super().__init__()
        self._linear_output = linear_output
        self.kernels, self.biases = [], []
        scopes = [weights.scope(f"layer_{number}") for number in range(len(units))]
        for scope, (rows, columns) in zip(scopes, pairwise((inputs, *units)), strict=True):
            self.kernels.append(scope.glorot_normal("kernel", (rows, columns)))
            self.biases.append(scope.normal("bias", (columns,), math.sqrt(1.0 / columns)))
        hidden = list(zip(scopes, units, strict=True))[: len(units) - linear_output]
        self.normalizations = [BatchNormalization(*layer) for layer in hidden] if batch_normalization else []
        self.dropouts = [Dropout(scope, dropout_rate) for scope in scopes[:-1]] if dropout_rate > 0 else []

    def __call__(self, x: tf.Tensor, training: bool = False) -> tf.Tensor:
        """``[B, inputs]`` to ``[B, units of the last layer]``."""
        last = len(self.kernels) - 1
        for number, (kernel, bias) in enumerate(zip(self.kernels, self.biases, strict=True)):
            if self._linear_output and number == last:
                return project(tf.cast(x, tf.float32), kernel, bias)
            x = project(x, kernel, bias)
            if self.normalizations:
                x = self.normalizations[number](x, training)
            x = tf.nn.relu(x)
            if training and self.dropouts and number < last:
                x = self.dropouts[number](x)
        return x
