"""Logistic regression in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT
from components.feature_spec import FeatureSpec
from components.models.layers.linear import Linear
from components.models.layers.weights import Weights
from components.models.model import click_loss
from components.models.tabular import read_tabular


class LogisticRegression(tf.Module):
    """``sum of a weight for each id + numbers W + b`` is the logit; all weights start at 0."""

    def __init__(self, spec: FeatureSpec) -> None:
        super().__init__()
        channels = read_tabular(spec)
        self.serving_features = channels.serving_features
        self._channels = channels
        ids = (*channels.categorical, *channels.multihot)
        self.linear = Linear(Weights(0).scope("linear"), ids, channels.numbers)
        self.tables = self.linear.embed.tables

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return {LOGIT: tf.squeeze(self.linear(features, self._channels.stacked(features)), 1)}

    loss_terms = click_loss
