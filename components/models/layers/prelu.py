"""The parametric rectifier."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.weights import Weights
from components.models.ops import dense as ops


class PReLU(tf.Module):
    """``max(x, 0) + alpha * min(x, 0)``, with one learned alpha per unit.

    Args:
        weights: source of fresh weights; alpha starts at 0.1.
        units: size of the last axis.

    References:
        He et al., Delving Deep into Rectifiers, https://arxiv.org/abs/1502.01852
    """

    def __init__(self, weights: Weights, units: int) -> None:
        super().__init__()
        self.alpha = weights.constant("alpha", (units,), 0.1)


def rectified_layers(
    inputs: tf.Tensor, layers: Sequence[tuple[Dense, PReLU]], output: Dense | None = None
) -> tf.Tensor:
    """Dense layers with PReLU over ``[B, width]``; then, if given, a linear float32 output of one unit."""
    weights = [tensor for dense, prelu in layers for tensor in (dense.kernel, dense.bias, prelu.alpha)]
    return ops.rectified_layers(inputs, *weights, *((output.kernel, output.bias) if output else ()))
