"""DLRM, the Deep Learning Recommendation Model."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.dlrm.parameters import DlrmParameters
from components.models.layers.dot_interaction import dot_interaction
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.mlp import Mlp
from components.models.layers.weights import Weights
from components.models.loss import click_loss
from components.models.tabular import read_tabular


class Dlrm(tf.Module):
    """A bottom network over numbers, pairwise dot products with embeddings, and a top network.

        vectors = [bottom(numbers), embedding of each feature]
        logit = top([bottom(numbers), vectors_i . vectors_j for i > j])

    Without numerical features, the sum of the embeddings replaces ``bottom(numbers)`` in the top network's input.

    Args:
        parameters: its sizes.
        spec: the features.
        seed: of the weights.
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
        self._numerical = tuple(feature.name for feature in channels.numerical)
        self._dtype = tf.float16 if amp else tf.float32
        width, embedded = parameters.embedding_dim, (*channels.categorical, *channels.multihot)
        self.embed = EmbeddingTables(weights.scope("embedding"), embedded, [width] * len(embedded), dtype=self._dtype)
        self.tables = self.embed.tables
        numbers = len(self._numerical)
        self.bottom = Mlp(weights.scope("bottom"), numbers, parameters.bottom_mlp_dims) if numbers else None
        vectors = len(embedded) + bool(numbers)
        pairs = vectors * (vectors - 1) // 2
        self.top = Mlp(weights.scope("top"), width + pairs, parameters.top_mlp_dims, linear_output=True)

    def logits(self, features: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        vectors = self.embed(features)
        if self.bottom is not None:
            numbers = tf.stack([features[name] for name in self._numerical], 1)
            first = self.bottom(tf.cast(numbers, self._dtype))
            vectors = [first, *vectors]
        else:
            first = tf.add_n(vectors)
        return tf.squeeze(self.top(tf.concat([first, dot_interaction(vectors)], 1)), 1)

    loss_terms = click_loss
