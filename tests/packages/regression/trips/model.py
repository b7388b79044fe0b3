"""The model trip_time in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.feature_spec import FeatureSpec
from components.models import LossTerm, Table
from trips.definition import TripTimeParameters

MINUTES = "minutes"


class TripTime(tf.Module):
    """``w . [zone, mean of the stops, distance] + b`` are the minutes; a stop 0 is padding.

    Args:
        parameters: its sizes.
        spec: with the channels zone, stops and numbers.
        seed: of the weights.
    """

    def __init__(self, parameters: TripTimeParameters, spec: FeatureSpec, seed: int) -> None:
        super().__init__()
        (self._zone,), (self._stops,), (self._distance,) = (spec.channel(name) for name in ("zone", "stops", "numbers"))
        self.serving_features = (self._zone.name, self._stops.name, self._distance.name)
        self.tables = {}
        for number, feature in enumerate((self._zone, self._stops)):
            rows = (feature.cardinality or 0) + 1
            values = tf.random.stateless_uniform([rows, parameters.width], [seed, number], -0.1, 0.1)
            self.tables[feature.name] = Table(tf.Variable(values, name=f"table_{feature.name}"), 0, rows)
        self.weights = tf.Variable(tf.random.stateless_normal([2 * parameters.width + 1, 1], [seed, 2]), name="weights")
        self.bias = tf.Variable(tf.zeros([1]), name="bias")

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        zone = tf.gather(self.tables[self._zone.name].variable, features[self._zone.name])
        stops = features[self._stops.name]
        there = tf.cast(stops > 0, tf.float32)[..., tf.newaxis]
        found = tf.reduce_sum(tf.gather(self.tables[self._stops.name].variable, stops) * there, 1)
        mean = tf.math.divide_no_nan(found, tf.reduce_sum(there, 1))
        distance = features[self._distance.name][:, tf.newaxis]
        return {MINUTES: tf.reshape(tf.concat([zone, mean, distance], 1) @ self.weights + self.bias, [-1])}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        outputs = self.outputs(features, training)
        squares = tf.square(outputs[MINUTES] - targets[MINUTES])
        return outputs, {"squared_error": LossTerm(squares, tf.ones_like(targets[MINUTES]), 1.0)}
