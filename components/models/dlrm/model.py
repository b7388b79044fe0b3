"""DLRM, the Deep Learning Recommendation Model."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.dlrm import DlrmParameters
from components.models.layers.dot_interaction import dot_interaction
from components.models.layers.mlp import Mlp
from components.models.layers.weights import Weights
from components.models.tabular import TabularModel


class Dlrm(TabularModel):
    """A bottom network over numbers, pairwise dot products with embeddings, and a top network.

        vectors = [bottom(numbers), embedding of each feature]
        logit = top([bottom(numbers), vectors_i . vectors_j for i > j])

    Without numerical features, the sum of the embeddings replaces ``bottom(numbers)`` in the top network's input. Batch
    normalisation and dropout of both networks' hidden layers are not part of the published model; they are off by
    default.

    Args:
        amp: whether to compute in float16; weights, tables, logits and losses stay float32.

    References:
        Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation Systems,
        https://arxiv.org/abs/1906.00091
    """

    def __init__(self, parameters: DlrmParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        weights, width = Weights(seed), parameters.embedding_dim
        super().__init__(weights, spec, width, parameters.embedding_l2, amp)
        numbers = self._channels.numbers
        dims, normalized = parameters.bottom_mlp_dims, parameters.batch_normalization
        rate = parameters.bottom_dropout
        self.bottom = Mlp(weights.scope("bottom"), numbers, dims, False, normalized, rate) if numbers else None
        vectors = len(self.tables) + bool(numbers)
        pairs = vectors * (vectors - 1) // 2
        dims, rate = parameters.top_mlp_dims, parameters.top_dropout
        self.top = Mlp(weights.scope("top"), width + pairs, dims, True, normalized, rate)

    def _logits(self, features: Mapping[str, tf.Tensor], embedded: list[tf.Tensor], training: bool) -> tf.Tensor:
        if self.bottom is None:
            first, vectors = tf.add_n(embedded), embedded
        else:
            first = self.bottom(tf.cast(self._channels.stacked(features), self._dtype), training)
            vectors = [first, *embedded]
        return tf.squeeze(self.top(tf.concat([first, dot_interaction(vectors)], 1), training), 1)
