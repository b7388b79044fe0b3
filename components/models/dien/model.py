"""DIEN, the Deep Interest Evolution Network: the interest is where a recurrence over the newest items ends."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.channels import read_channels, short_length
from components.models.dien.parameters import DienParameters
from components.models.inputs import EmbeddedBatch, SequenceInputs
from components.models.layers.classifier import Classifier
from components.models.layers.interest_evolution import UNITS_PER_EMBEDDING, InterestEvolution
from components.models.layers.next_item import NextItemNetwork
from components.models.layers.weights import Weights
from components.models.loss import AUXILIARY, LossTerm, cross_entropy


class Dien(tf.Module):
    """Interest evolution over the short history, then a classifier over [target, interest, user].

    The loss is the cross-entropy plus the auxiliary loss of the next item times its weight.

    Args:
        parameters: its sizes.
        spec: the features.
        seed: of the weights.
        amp: whether to compute in float16; weights, softmaxes, logits and losses stay float32.

    References:
        Zhou et al., Deep Interest Evolution Network, https://arxiv.org/abs/1809.03672
    """

    def __init__(self, parameters: DienParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        weights = Weights(seed)
        channels = read_channels(spec, negatives=True)
        self.serving_features = channels.serving_features
        self.inputs = SequenceInputs(
            weights,
            channels,
            short_length=short_length(spec, channels, parameters.long_seq_length),
            embedding_dim=parameters.embedding_dim,
            dtype=tf.float16 if amp else tf.float32,
        )
        self.tables = self.inputs.tables
        item, user = self.inputs.item_width, self.inputs.user_width
        units = UNITS_PER_EMBEDDING * parameters.embedding_dim
        self.evolution = InterestEvolution(weights.scope("evolution"), item, units)
        self.next_item = NextItemNetwork(
            weights.scope("next_item"),
            units,
            item,
            parameters.aux_mlp_dims,
            parameters.aux_loss_weight,
            parameters.aux_loss_padding,
        )
        self.classifier = Classifier(
            weights.scope("classifier"), item + units + user, parameters.mlp_dims, parameters.dropout_rate
        )

    def logits(self, features: Mapping[str, tf.Tensor], training: bool = False) -> tf.Tensor:
        return self._forward(self.inputs(features), training)[0]

    def loss_terms(
        self, features: Mapping[str, tf.Tensor], labels: tf.Tensor, training: bool = True
    ) -> tuple[tf.Tensor, dict[str, LossTerm]]:
        batch = self.inputs(features, negatives=True)
        logits, states = self._forward(batch, training)
        return logits, {
            "cross_entropy": cross_entropy(labels, logits),
            AUXILIARY: self.next_item.loss(states, batch.candidates, batch.short_mask),
        }

    def _forward(self, batch: EmbeddedBatch, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Logits ``[B]`` and the states of the interest extraction, ``[S, B, units]``."""
        interest, states = self.evolution(batch.short, batch.short_mask, batch.target)
        return self.classifier(tf.concat([batch.target, interest, batch.user], -1), training), states
