"""A transformer over embedded tokens."""

from __future__ import annotations

from functools import partial

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.transformer import Sizes, Transformer, initial_kernel
from components.models.layers.weights import Weights


class Encoder(tf.Module):
    """Layers of transformers; a linear layer before them if the embeddings have another width.

    Args:
        inputs: width of the embeddings.
    """

    def __init__(self, weights: Weights, inputs: int, sizes: Sizes) -> None:
        super().__init__()
        is_equal = inputs == sizes.width
        initial = partial(initial_kernel, deviation=sizes.deviation)
        self.projection = None if is_equal else Dense(weights.scope("projection"), inputs, sizes.width, initial)
        self.transformer = Transformer(weights, sizes)

    def __call__(self, embedded: tf.Tensor, visible: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Computes the states of the last layer.

        Args:
            embedded: ``[B, L, inputs]``, L static.
            visible: bool ``[B, L]``, false for padding.
            training: whether dropout is on.

        Returns:
            ``[B, L, width]``.
        """
        states = embedded if self.projection is None else self.projection(embedded)
        return self.transformer(states, visible, training)
