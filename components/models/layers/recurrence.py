"""The gated recurrent unit, with or without attention."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.ops import recurrence


class GatedRecurrence(tf.Module):
    """A GRU, or with attention an AUGRU, over a short sequence; see ``components.models.ops.recurrence``.

    Args:
        weights: source of fresh weights; W starts Glorot uniform, U orthogonal, the candidate's bias at 0.
        inputs: width of x.
        units: width of h.
        gate_bias: initial bias of both gates.
    """

    def __init__(self, weights: Weights, inputs: int, units: int, gate_bias: float = 0.0) -> None:
        super().__init__()
        self.kernels = weights.glorot("kernels", (3, inputs, units))
        self.recurrent_kernels = weights.orthogonal("recurrent_kernels", (3, units, units))
        self.gate_biases = weights.constant("gate_biases", (2, units), gate_bias)
        self.candidate_bias = weights.constant("candidate_bias", (units,))

    def states(self, inputs: tf.Tensor) -> tf.Tensor:
        """The state of the GRU after each step, ``[T, B, units]``, for inputs ``[T, B, I]`` of static T."""
        return recurrence.gru(inputs, *self._weights(inputs.dtype))

    def last_state(self, inputs: tf.Tensor, attention: tf.Tensor) -> tf.Tensor:
        """The state of the AUGRU after the last step, ``[B, units]``.

        Args:
            inputs: ``[T, B, I]``, T static.
            attention: ``[T, B]`` in 0..1.
        """
        return recurrence.augru(inputs, tf.cast(attention, inputs.dtype), *self._weights(inputs.dtype))

    def _weights(self, dtype: tf.DType) -> list[tf.Tensor]:
        biases = tf.concat([self.gate_biases, self.candidate_bias[tf.newaxis]], 0)
        return [tf.cast(weights, dtype) for weights in (self.kernels, self.recurrent_kernels, biases)]
