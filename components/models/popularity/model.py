"""Popularity in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT
from components.feature_spec import Feature
from components.models.layers.linear import Linear
from components.models.layers.weights import Weights
from components.models.model import click_loss


class Popularity(tf.Module):
    """The log-odds of a click, given the value of one feature: ``w_value + b``.

    The log loss is minimal at the empirical rates: ``w_v + b = ln(clicks_v / (views_v - clicks_v))``. Training is
    gradient descent from 0, as for every model, so a value with few views stays near the overall rate.
    """

    def __init__(self, feature: Feature) -> None:
        super().__init__()
        self.serving_features = (feature.name,)
        self.linear = Linear(Weights(0).scope("linear"), (feature,), 0)
        self.tables = self.linear.embed.tables

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        rows = tf.shape(features[self.serving_features[0]])[0]
        return {LOGIT: tf.squeeze(self.linear(features, tf.zeros([rows, 0])), 1)}

    loss_terms = click_loss
