"""Wide & Deep in TensorFlow: a linear model of all features beside a deep one of the same features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import tensorflow as tf

from components.contract import LOGIT, only_label
from components.feature_spec import Feature, FeatureSpec
from components.models.layers.batch_normalization import BatchNormalization
from components.models.layers.dense import Dense
from components.models.layers.dropout import Dropout
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.linear import Linear
from components.models.layers.weights import Weights
from components.models.loss import CROSS_ENTROPY, LossTerm, cross_entropy, embedding_penalty
from components.models.model import Table
from components.models.tabular import read_tabular
from components.models.wide_and_deep import WideAndDeepParameters

# Published widths for the features of the Outbrain click prediction; a hash bucket is an id.
PUBLISHED = {
    "document_id": 128,
    "ad_id": 128,
    "document_id_promo": 128,
    "campaign_id": 128,
    "source_id": 64,
    "source_id_promo": 64,
    "geo_location": 64,
    "geo_location_state": 64,
    "geo_location_country": 64,
    "advertiser_id": 64,
    "publisher_id": 64,
    "publisher_id_promo": 64,
    "platform": 16,
    "topic_id_list": 64,
    "entity_id_list": 64,
    "category_id_list": 64,
}
# Other features: (largest number of ids, width). The published widths agree, except for campaign_id and the lists.
_BY_CARDINALITY = ((100, 16), (10_000, 64))
_WIDEST = 128


def width_of(feature: Feature, embedding_dim: int) -> int:
    """Floats of a feature's embedding: ``embedding_dim``, or if that is 0 the published width or the rule's."""
    if embedding_dim:
        return embedding_dim
    cardinality = feature.cardinality or 0
    by_rule = next((width for most, width in _BY_CARDINALITY if cardinality <= most), _WIDEST)
    return PUBLISHED.get(feature.name, by_rule)


class Deep(tf.Module):
    """``[embeddings, numbers]`` through dense layers with ReLU and dropout, and an output.

    With batch normalisation, a layer's values are normalised before the ReLU.

    Args:
        weights: source of fresh weights; tables start Glorot normal, kernels Glorot uniform.
        features: ids, or lists of ids, whose embeddings are summed.
    """

    def __init__(
        self,
        weights: Weights,
        features: Sequence[Feature],
        numbers: int,
        parameters: WideAndDeepParameters,
        dtype: tf.DType,
    ) -> None:
        super().__init__()
        self._dtype = dtype
        widths = [width_of(feature, parameters.embedding_dim) for feature in features]
        self.embed = EmbeddingTables(weights.scope("embedding"), features, widths, Weights.glorot_normal, dtype)
        sizes = (sum(widths) + numbers, *parameters.deep_hidden_units)
        scopes = [weights.scope(f"hidden_{number}") for number in range(len(parameters.deep_hidden_units))]
        self.hidden = [Dense(scope, *size) for scope, size in zip(scopes, pairwise(sizes), strict=True)]
        normalized = parameters.batch_normalization
        self.normalizations = (
            [BatchNormalization(*layer) for layer in zip(scopes, sizes[1:], strict=True)] if normalized else []
        )
        rate = parameters.deep_dropout
        self.dropouts = [Dropout(scope, rate) for scope in scopes] if rate > 0 else []
        self.output = Dense(weights.scope("output"), sizes[-1], 1)

    def __call__(self, embedded: Sequence[tf.Tensor], numbers: tf.Tensor, training: bool) -> tf.Tensor:
        """Scores a batch, float32 ``[B, 1]``; ``embedded`` is of ``embed``, ``numbers`` float32 ``[B, numbers]``."""
        x = tf.concat([*embedded, tf.cast(numbers, self._dtype)], 1)
        for number, layer in enumerate(self.hidden):
            x = layer(x)
            if self.normalizations:
                x = self.normalizations[number](x, training)
            x = tf.nn.relu(x)
            if training and self.dropouts:
                x = self.dropouts[number](x)
        return self.output(tf.cast(x, tf.float32))


class WideAndDeep(tf.Module):
    """``wide + deep`` is the logit.

    Args:
        amp: whether the deep part computes in float16; weights, the wide part, logits and losses stay float32.

    References:
        Cheng et al., Wide & Deep Learning for Recommender Systems, https://arxiv.org/abs/1606.07792
    """

    def __init__(self, parameters: WideAndDeepParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        channels = read_tabular(spec)
        self.serving_features = channels.serving_features
        self._channels = channels
        self._penalty = parameters.embedding_l2
        weights, features = Weights(seed), (*channels.categorical, *channels.multihot)
        self.wide = Linear(weights.scope("wide"), features, channels.numbers)
        dtype = tf.float16 if amp else tf.float32
        self.deep = Deep(weights.scope("deep"), features, channels.numbers, parameters, dtype)
        linear = {f"wide/{name}": Table(*table[:3], name) for name, table in self.wide.embed.tables.items()}
        self.tables = {**self.deep.embed.tables, **linear}

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {LOGIT: self._logits(features, self.deep.embed(features), training)}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        embedded = self.deep.embed(features)
        logits = self._logits(features, embedded, training)
        return {LOGIT: logits}, {
            CROSS_ENTROPY: cross_entropy(only_label(targets), logits),
            **embedding_penalty(embedded, self._penalty),
        }

    def _logits(self, features: Mapping[str, tf.Tensor], embedded: Sequence[tf.Tensor], training: bool) -> tf.Tensor:
        numbers = self._channels.stacked(features)
        return tf.squeeze(self.wide(features, numbers) + self.deep(embedded, numbers, training), 1)
