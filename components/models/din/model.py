"""DIN, the Deep Interest Network: the interest is the history, weighted by how well each item fits the target."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT
from components.feature_spec import FeatureSpec
from components.models.channels import read_channels
from components.models.din import DinParameters
from components.models.inputs import SequenceInputs
from components.models.layers.classifier import Classifier
from components.models.layers.weights import Weights
from components.models.model import click_loss
from components.models.ops.attention import dot_scores, masked_softmax, pool


class Din(tf.Module):
    """Attention of the target over the whole history, then a classifier over [target, interest, user].

    Args:
        amp: whether to compute in float16; weights, softmaxes, logits and losses stay float32.

    References:
        Zhou et al., Deep Interest Network, https://arxiv.org/abs/1706.06978
    """

    def __init__(self, parameters: DinParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        weights = Weights(seed)
        channels = read_channels(spec, negatives=False)
        self.serving_features = channels.serving_features
        self.target_features = tuple(feature.name for feature in channels.target)
        self.inputs = SequenceInputs(
            weights,
            channels,
            short_length=0,
            embedding_dim=parameters.embedding_dim,
            dtype=tf.float16 if amp else tf.float32,
            repetition=parameters.repetition,
            user_dropout=parameters.user_dropout,
        )
        self.tables = self.inputs.tables
        width = 2 * self.inputs.item_width + self.inputs.user_width + self.inputs.repetition_width
        self.classifier = Classifier(weights.scope("classifier"), width, parameters.mlp_dims, parameters.dropout_rate)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        batch = self.inputs(features, training=training)
        items = self.inputs.embedding(batch.long)
        if batch.long_events is not None:
            items += batch.long_events
        attention = masked_softmax(dot_scores(items, batch.target), batch.long_mask)
        interest = pool(attention[:, tf.newaxis], items)[:, 0]
        inputs = tf.concat([batch.target, interest, batch.user, *batch.repetition], -1)
        return {LOGIT: self.classifier(inputs, training)}

    loss_terms = click_loss
