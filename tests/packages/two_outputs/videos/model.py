"""The model video in TensorFlow."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from components.contract import LOGIT
from components.feature_spec import FeatureSpec
from components.models import LossTerm
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.weights import Weights
from components.models.loss import cross_entropy
from videos.definition import VideoParameters

THIRDS = 3


class Video(tf.Module):
    """``W [user, video] + b`` are the log-odds of a click, and the seconds watched of each third.

    Args:
        parameters: its sizes.
        spec: with the channel categorical.
        seed: of the weights.
    """

    def __init__(self, parameters: VideoParameters, spec: FeatureSpec, seed: int) -> None:
        super().__init__()
        features, weights = spec.channel("categorical"), Weights(seed)
        self.serving_features = tuple(feature.name for feature in features)
        self._embed = EmbeddingTables(weights, features, [parameters.video_width] * len(features))
        self.tables = self._embed.tables
        self._kernel = weights.glorot("kernel", (parameters.video_width * len(features), 1 + THIRDS))
        self._bias = weights.constant("bias", (1 + THIRDS,))
        self._seconds_weight = parameters.seconds_weight

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        found = tf.concat(self._embed(features), 1) @ self._kernel + self._bias
        return {LOGIT: found[:, 0], "seconds": found[:, 1:]}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        outputs, seconds = self.outputs(features, training), targets["seconds"]
        squares = tf.reduce_sum(tf.square(outputs["seconds"] - seconds), 1)
        thirds = tf.fill(tf.shape(squares), float(THIRDS))
        return outputs, {
            "click": cross_entropy(targets["clicked"], outputs[LOGIT]),
            "seconds": LossTerm(squares, thirds, self._seconds_weight),
        }
