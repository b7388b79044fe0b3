"""The model toy in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT
from components.feature_spec import FeatureSpec
from components.models import Table
from components.models.loss import click_loss
from toy.definition import ToyParameters


class Toy(tf.Module):
    """``w . [item, mean of the tags, price] + b``; a tag 0 is padding.

    Args:
        parameters: its sizes.
        spec: with the channels item, tags and numbers.
        seed: of the weights.
    """

    def __init__(self, parameters: ToyParameters, spec: FeatureSpec, seed: int) -> None:
        super().__init__()
        (self._item,), (self._tags,), (self._price,) = (spec.channel(name) for name in ("item", "tags", "numbers"))
        self.serving_features = (self._item.name, self._tags.name, self._price.name)
        self.tables = {}
        for number, feature in enumerate((self._item, self._tags)):
            rows = (feature.cardinality or 0) + 1
            values = tf.random.stateless_uniform([rows, parameters.width], [seed, number], -0.1, 0.1)
            self.tables[feature.name] = Table(tf.Variable(values, name=f"table_{feature.name}"), 0, rows)
        self.weights = tf.Variable(tf.random.stateless_normal([2 * parameters.width + 1, 1], [seed, 2]), name="weights")
        self.bias = tf.Variable(tf.zeros([1]), name="bias")

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        item = tf.gather(self.tables[self._item.name].variable, features[self._item.name])
        tags = features[self._tags.name]
        there = tf.cast(tags > 0, tf.float32)[..., tf.newaxis]
        found = tf.reduce_sum(tf.gather(self.tables[self._tags.name].variable, tags) * there, 1)
        mean = tf.math.divide_no_nan(found, tf.reduce_sum(there, 1))
        price = features[self._price.name][:, tf.newaxis]
        return {LOGIT: tf.reshape(tf.concat([item, mean, price], 1) @ self.weights + self.bias, [-1])}

    loss_terms = click_loss
