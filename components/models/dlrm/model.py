"""DLRM, the Deep Learning Recommendation Model."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT, only_label
from components.feature_spec import FeatureSpec
from components.models.dlrm import DlrmParameters
from components.models.layers.dot_interaction import dot_interaction
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.mlp import Mlp
from components.models.layers.weights import Weights
from components.models.loss import CROSS_ENTROPY, LossTerm, cross_entropy, embedding_penalty
from components.models.tabular import read_tabular


class Dlrm(tf.Module):
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
        super().__init__()
        weights = Weights(seed)
        channels = read_tabular(spec)
        self.serving_features = channels.serving_features
        self._channels = channels
        self._penalty = parameters.embedding_l2
        self._dtype = tf.float16 if amp else tf.float32
        width, embedded = parameters.embedding_dim, (*channels.categorical, *channels.multihot)
        self.embed = EmbeddingTables(weights.scope("embedding"), embedded, [width] * len(embedded), dtype=self._dtype)
        self.tables = self.embed.tables
        numbers = channels.numbers
        dims, normalized = parameters.bottom_mlp_dims, parameters.batch_normalization
        rate = parameters.bottom_dropout
        self.bottom = Mlp(weights.scope("bottom"), numbers, dims, False, normalized, rate) if numbers else None
        vectors = len(embedded) + bool(numbers)
        pairs = vectors * (vectors - 1) // 2
        dims, rate = parameters.top_mlp_dims, parameters.top_dropout
        self.top = Mlp(weights.scope("top"), width + pairs, dims, True, normalized, rate)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {LOGIT: self._logits(features, self.embed(features), training)}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        embedded = self.embed(features)
        logits = self._logits(features, embedded, training)
        return {LOGIT: logits}, {
            CROSS_ENTROPY: cross_entropy(only_label(targets), logits),
            **embedding_penalty(embedded, self._penalty),
        }

    def _logits(self, features: Mapping[str, tf.Tensor], embedded: list[tf.Tensor], training: bool) -> tf.Tensor:
        if self.bottom is None:
            first, vectors = tf.add_n(embedded), embedded
        else:
            first = self.bottom(tf.cast(self._channels.stacked(features), self._dtype), training)
            vectors = [first, *embedded]
        return tf.squeeze(self.top(tf.concat([first, dot_interaction(vectors)], 1), training), 1)
