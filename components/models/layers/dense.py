"""A fully connected layer, and the parametric rectifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.ops import dense as ops

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
        return ops.project(inputs, self.kernel, self.bias)


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
