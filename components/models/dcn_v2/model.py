"""DCN V2, the improved Deep & Cross Network: explicit feature crosses of bounded degree beside an MLP."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.dcn_v2 import STACKED, DcnV2Parameters
from components.models.layers.dense import Dense
from components.models.layers.embedding_tables import uniform_by_rows, uniform_in
from components.models.layers.mlp import Mlp
from components.models.layers.weights import Weights
from components.models.ops.dense import project
from components.models.tabular import TabularModel


class CrossNetwork(tf.Module):
    """Layers ``x <- x_0 * (W x + b) + x``; after L of them x has the crosses of up to L + 1 inputs.

    Args:
        weights: source of fresh weights; matrices start Glorot uniform, b at 0.
        inputs: width of x.
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


class DcnV2(TabularModel):
    """A cross network and a deep network over the same embeddings and numbers.

        x = [embeddings, numbers]
        logit = w . cross(x) + deep(x)      parallel
        logit = deep(cross(x))              stacked

    The last layer of the deep network is a logit. Batch normalisation and the penalty of the embeddings are not part of
    the published model; they are off by default.

    Args:
        amp: whether the deep network computes in float16; weights, tables, crosses, logits and losses stay float32.

    References:
        Wang et al., DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale Learning to Rank Systems,
        https://arxiv.org/abs/2008.13535
    """

    def __init__(self, parameters: DcnV2Parameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        weights, width = Weights(seed), parameters.embedding_dim
        initial = uniform_in(parameters.embedding_limit) if parameters.embedding_limit else uniform_by_rows
        super().__init__(weights, spec, width, parameters.embedding_l2, amp, initial)
        inputs = width * len(self.tables) + self._channels.numbers
        self.cross = CrossNetwork(weights.scope("cross"), inputs, parameters.cross_layers, parameters.cross_rank)
        units, normalized = (*parameters.deep_hidden_units, 1), parameters.batch_normalization
        self.deep = Mlp(weights.scope("deep"), inputs, units, True, normalized, parameters.deep_dropout)
        self.output = None if parameters.structure == STACKED else weights.scope("output").glorot("kernel", (inputs, 1))

    def _logits(self, features: Mapping[str, tf.Tensor], embedded: list[tf.Tensor], training: bool) -> tf.Tensor:
        x = tf.concat([*embedded, tf.cast(self._channels.stacked(features), self._dtype)], 1)
        # In float32, since products of products overflow float16.
        crossed = self.cross(tf.cast(x, tf.float32))
        if self.output is None:
            logits = self.deep(tf.cast(crossed, self._dtype), training)
        else:
            logits = project(crossed, self.output) + self.deep(x, training)
        return tf.squeeze(logits, 1)
