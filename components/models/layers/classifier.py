"""The network that turns a sample's representation into a logit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.prelu import PReLU, rectified_layers
from components.models.layers.weights import Weights


class Classifier(tf.Module):
    """Dense layers with PReLU and dropout, and a float32 logit.

    Args:
        weights: source of fresh weights.
        inputs: width of the representation.
        hidden: widths of the hidden layers, such as (200, 80).
        dropout_rate: share of hidden units dropped in training; 0 or below is none.

    Example:
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
        self._dropout_rate = dropout_rate
        # A generator of its own keeps dropout the same after a resume: its state is saved with the weights.
        self._generator = tf.random.Generator.from_seed(weights.seed) if dropout_rate > 0 else None

    def __call__(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Scores representations ``[B, inputs]``; returns float32 ``[B]``."""
        if training and self._generator is not None:
            for layer in self.hidden:
                inputs = rectified_layers(inputs, [layer])
                inputs = tf.nn.experimental.general_dropout(inputs, self._dropout_rate, self._generator.uniform)
            scores = self.output(tf.cast(inputs, tf.float32))
        else:
            scores = rectified_layers(inputs, self.hidden, self.output)
        return tf.squeeze(scores, -1)
