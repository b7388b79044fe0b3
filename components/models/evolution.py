"""The common part of SIM and DIEN."""

from __future__ import annotations

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models.channels import read_channels, short_length
from components.models.inputs import SequenceInputs
from components.models.layers.interest_evolution import UNITS_PER_EMBEDDING, InterestEvolution
from components.models.layers.next_item import NextItemNetwork
from components.models.layers.weights import Weights
from components.models.parameters import EvolutionParameters

# Name of the term of the next item, and the names under which the public SIM logs the parts of its loss.
AUXILIARY = "auxiliary"
CLASSIFICATION, NEXT_ITEM = "classification_loss", "dien_aux_loss"


class EvolutionModel(tf.Module):
    """Embeds users, items and histories, and has DIEN's interest evolution and auxiliary loss; no classifier.

    Args:
        amp: whether to compute in float16; weights, softmaxes, logits and losses stay float32.
    """

    def __init__(self, parameters: EvolutionParameters, spec: FeatureSpec, weights: Weights, amp: bool) -> None:
        super().__init__()
        self.channels = read_channels(spec, negatives=True)
        self.serving_features = self.channels.serving_features
        self.target_features = tuple(feature.name for feature in self.channels.target)
        self.short_length = short_length(spec, self.channels, parameters.long_seq_length)
        self.inputs = SequenceInputs(
            weights,
            self.channels,
            short_length=self.short_length,
            embedding_dim=parameters.embedding_dim,
            dtype=tf.float16 if amp else tf.float32,
            repetition=parameters.repetition,
            user_dropout=parameters.user_dropout,
        )
        self.tables = self.inputs.tables
        self.units = UNITS_PER_EMBEDDING * parameters.embedding_dim
        self.evolution = InterestEvolution(weights.scope("evolution"), self.inputs.item_width, self.units)
        self.next_item = NextItemNetwork(
            weights.scope("next_item"),
            self.units,
            self.inputs.item_width,
            parameters.aux_mlp_dims,
            parameters.aux_loss_weight,
            parameters.aux_loss_padding,
            NEXT_ITEM,
        )
