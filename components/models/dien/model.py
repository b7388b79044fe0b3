"""DIEN, the Deep Interest Evolution Network: the interest is where a recurrence over the newest items ends."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT, only_label
from components.feature_spec import FeatureSpec
from components.models.dien import DienParameters
from components.models.evolution import AUXILIARY, CLASSIFICATION, EvolutionModel
from components.models.inputs import EmbeddedBatch
from components.models.layers.classifier import Classifier
from components.models.layers.weights import Weights
from components.models.loss import CROSS_ENTROPY, LossTerm, cross_entropy


class Dien(EvolutionModel):
    """Interest evolution over the short history, then a classifier over [target, interest, user].

    The loss is the cross-entropy plus the auxiliary loss of the next item times its weight.

    Args:
        amp: whether to compute in float16; weights, softmaxes, logits and losses stay float32.

    References:
        Zhou et al., Deep Interest Evolution Network, https://arxiv.org/abs/1809.03672
    """

    def __init__(self, parameters: DienParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        weights = Weights(seed)
        super().__init__(parameters, spec, weights, amp)
        width = self.inputs.item_width + self.units + self.inputs.user_width + self.inputs.repetition_width
        self.classifier = Classifier(weights.scope("classifier"), width, parameters.mlp_dims, parameters.dropout_rate)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {LOGIT: self._forward(self.inputs(features, training=training), training)[0]}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        batch = self.inputs(features, training=training, negatives=True)
        logits, states = self._forward(batch, training)
        return {LOGIT: logits}, {
            CROSS_ENTROPY: cross_entropy(only_label(targets), logits, part=CLASSIFICATION),
            AUXILIARY: self.next_item.loss(states, batch.candidates, batch.short_mask),
        }

    def _forward(self, batch: EmbeddedBatch, training: bool) -> tuple[tf.Tensor, tf.Tensor]:
        """Logits ``[B]`` and the states of the interest extraction, ``[S, B, units]``."""
        interest, states = self.evolution(batch.short, batch.short_mask, batch.target)
        inputs = tf.concat([batch.target, interest, batch.user, *batch.repetition], -1)
        return self.classifier(inputs, training), states
