"""Explicit feature crosses of bounded degree."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.weights import Weights
from components.models.ops.dense import project


class CrossNetwork(tf.Module):
    """Layers ``x <- x_0 * (W x + b) + x``; after L of them x has the crosses of up to L + 1 inputs.

    Args:
        weights: source of fresh weights; matrices start Glorot uniform, b at 0.
        inputs: width of x.
        layers: number of layers.
        rank: width of U and V, where ``W = U V^T``; 0 learns W whole.

    Examples:
        >>> CrossNetwork(Weights(1), inputs=30, layers=3, rank=8)(tf.zeros([4, 30])).shape
        TensorShape([4, 30])

    References:
        Wang et al., DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to Rank Systems,
        https://arxiv.org/abs/2008.13535, equations 1 and 2
    """

    def __init__(self, weights: Weights, inputs: int, layers: int, rank: int = 0) -> None:
        super().__init__()
        scopes = [weights.scope(f"layer_{number}") for number in range(layers)]
        self.narrow = [scope.glorot("narrow", (inputs, rank)) for scope in scopes] if rank else []
        self.wide = [Dense(scope, rank or inputs, inputs) for scope in scopes]

    def __call__(self, first: tf.Tensor) -> tf.Tensor:
        """``[B, inputs]`` to ``[B, inputs]``, in the dtype of the inputs."""
        x = first
        for number, layer in enumerate(self.wide):
            projected = project(x, self.narrow[number]) if self.narrow else x
            x = first * layer(projected) + x
        return x
