"""Logistic regression in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT
from components.feature_spec import FeatureSpec
from components.models.layers.linear import Linear
from components.models.layers.weights import Weights
from components.models.loss import click_loss
from components.models.tabular import read_tabular


class LogisticRegression(tf.Module):
    """``sum of a weight for each id + numbers W + b`` is the logit; all weights start at 0.

    Args:
        spec: the features.
    """

    def __init__(self, spec: FeatureSpec) -> None:
        super().__init__()
        channels = read_tabular(spec)
        self.serving_features = channels.serving_features
        self._numerical = tuple(feature.name for feature in channels.numerical)
        self._any = self.serving_features[0]
        ids = (*channels.categorical, *channels.multihot)
        self.linear = Linear(Weights(0).scope("linear"), ids, len(self._numerical))
        self.tables = self.linear.embed.tables

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        rows = tf.shape(features[self._any])[0]
        numbers = [features[name] for name in self._numerical]
        stacked = tf.stack(numbers, 1) if numbers else tf.zeros([rows, 0])
        return {LOGIT: tf.squeeze(self.linear(features, stacked), 1)}

    loss_terms = click_loss
