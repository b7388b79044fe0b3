"""DIEN's two recurrences: interest extraction and interest evolution."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.activation_unit import ActivationUnit
from components.models.layers.dense import Dense, PReLU, rectified_layers
from components.models.layers.recurrence import GatedRecurrence
from components.models.layers.weights import Weights
from components.models.ops.attention import masked_softmax

# Units per float of a feature's embedding, as in the authors' code.
UNITS_PER_EMBEDDING = 6


class InterestEvolution(tf.Module):
    """GRU over the history, attention of its states to the target, AUGRU over the states.

    Args:
        inputs: width of an item and of the target.
        units: width of the states.

    References:
        Zhou et al., Deep Interest Evolution Network, https://arxiv.org/abs/1809.03672
    """

    def __init__(self, weights: Weights, inputs: int, units: int) -> None:
        super().__init__()
        self.extraction = GatedRecurrence(weights.scope("extraction"), inputs, units)
        self.target = Dense(weights.scope("target"), inputs, units)
        self.target_activation = PReLU(weights.scope("target"), units)
        self.attention = ActivationUnit(weights.scope("attention"), units)
        self.evolution = GatedRecurrence(weights.scope("evolution"), units, units, gate_bias=1.0)

    def __call__(self, items: tf.Tensor, mask: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Computes the user's interest with respect to the target.

        Args:
            items: ``[T, B, inputs]``, time-major, oldest first.
            mask: bool ``[B, T]``, false at padding.
            target: ``[B, inputs]``.

        Returns:
            The last state of the AUGRU, ``[B, units]``, and the state of the GRU after each step, ``[T, B, units]``.
        """
        present = tf.cast(tf.transpose(mask), items.dtype)
        states = self.extraction.states(items * present[..., tf.newaxis])
        wanted = rectified_layers(target, [(self.target, self.target_activation)])
        attention = masked_softmax(tf.transpose(self.attention(states, wanted)), mask)
        return self.evolution.last_state(states, tf.transpose(attention)), states
