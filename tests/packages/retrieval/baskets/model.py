"""The model towers in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from baskets.definition import TowersParameters
from components.feature_spec import FeatureSpec
from components.models import LossTerm
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.global_batch import gathered_over_ranks
from components.models.layers.weights import Weights

_LEFT_OUT = -1e9  # logit of an item that is no negative


class Towers(tf.Module):
    """The softmax over the items of the global batch of ``user . item - log q``, where q is the item's share of sales.

    References:
        Yi et al., "Sampling-bias-corrected neural modeling for large corpus item recommendations", RecSys 2019.

    Args:
        parameters: its sizes.
        spec: with the channels user, item and share.
        seed: of the weights.
    """

    def __init__(self, parameters: TowersParameters, spec: FeatureSpec, seed: int) -> None:
        super().__init__()
        (self._user,), (self._item,), (self._share,) = (spec.channel(name) for name in ("user", "item", "share"))
        self.serving_features = (self._user.name, self._item.name)
        self._embed = EmbeddingTables(Weights(seed), (self._user, self._item), [parameters.tower_width] * 2)
        self.tables = self._embed.tables

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        user, item = self._embed(features)
        return {"user": user, "item": item}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        outputs = self.outputs(features, training)
        ids = features[self._item.name]
        items = gathered_over_ranks(outputs["item"], "items")
        others, shares, counted = (
            gathered_over_ranks(values, name).values
            for name, values in (("ids", ids), ("shares", features[self._share.name]), ("counted", mask))
        )
        logits = tf.matmul(outputs["user"], items.values, transpose_b=True) - tf.math.log(shares)
        own = items.first + tf.range(tf.shape(ids)[0])
        is_own = own[:, tf.newaxis] == tf.range(tf.shape(others)[0])
        # Padding samples, and other sales of the own item, are no negatives.
        is_negative = counted & (ids[:, tf.newaxis] != others)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(own, tf.where(is_own | is_negative, logits, _LEFT_OUT))
        return outputs, {"softmax": LossTerm(losses, tf.ones_like(losses), 1.0)}
