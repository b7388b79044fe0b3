"""The network that turns a sample's representation into a logit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import tensorflow as tf

from components.models.layers.dense import Dense, PReLU, rectified_layers
from components.models.layers.dropout import Dropout
from components.models.layers.weights import Weights


class Classifier(tf.Module):
    """Dense layers with PReLU and dropout, and a float32 logit.

    Args:
        inputs: width of the representation.
        hidden: widths of the hidden layers, such as (200, 80).
        dropout_rate: share of hidden units dropped in training; 0 or below is none.

    Examples:
        >>> Classifier(Weights(1), inputs=80, hidden=(200,))(tf.zeros([8, 80])).shape
        TensorShape([8])
    """

    def __init__(self, weights: Weights, inputs: int, hidden: Sequence[int], dropout_rate: float = 0.0) -> None:
        super().__init__()
        widths = (inputs, *hidden)
        self.hidden = [
            (Dense(weights.scope(f"hidden_{i}"), n, m), PReLU(weights.scope(f"hidden_{i}"), m))
            for i, (n, m) in enumerate(pairwise(widths))
        ]
        self.output = Dense(weights.scope("output"), widths[-1], 1)
        layers = range(len(hidden) if dropout_rate > 0 else 0)
        self.dropouts = [Dropout(weights.scope(f"hidden_{i}"), dropout_rate) for i in layers]

    def __call__(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Scores representations ``[B, inputs]``; returns float32 ``[B]``."""
        if training and self.dropouts:
            for layer, dropout in zip(self.hidden, self.dropouts, strict=True):
                inputs = dropout(rectified_layers(inputs, [layer]))
            scores = self.output(tf.cast(inputs, tf.float32))
        else:
            scores = rectified_layers(inputs, self.hidden, self.output)
        return tf.squeeze(scores, -1)
