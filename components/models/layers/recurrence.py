"""The gated recurrent unit, with or without attention."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.dense import project
from components.models.layers.weights import Weights


class GatedRecurrence(tf.Module):
    """A GRU, or given attention a an AUGRU, over a short sequence.

        u = sigmoid(x Wu + h Uu + bu)           update gate
        r = sigmoid(x Wr + h Ur + br)           reset gate
        c = tanh(x Wc + r * (h Uc) + bc)        candidate
        u' = (1 - a) * u
        h' = u' * h + (1 - u') * c

    Without attention u' is u. Time comes first, so that a step is a contiguous block; the inputs of all steps are
    projected by one product a gate before the loop; the gates have products of their own, because slicing a joint one
    costs a copy; the first step, whose state is 0, has none.

    Args:
        weights: source of fresh weights; W starts Glorot uniform, U orthogonal, the candidate's bias at 0.
        inputs: width of x.
        units: width of h.
        gate_bias: start of both gates' biases.

    References:
        Cho et al. 2014, https://arxiv.org/abs/1406.1078; Zhou et al., Deep Interest Evolution Network,
        https://arxiv.org/abs/1809.03672
    """

    def __init__(self, weights: Weights, inputs: int, units: int, gate_bias: float = 0.0) -> None:
        super().__init__()
        self.kernels = weights.glorot("kernels", (3, inputs, units))
        self.recurrent_kernels = weights.orthogonal("recurrent_kernels", (3, units, units))
        self.gate_biases = weights.constant("gate_biases", (2, units), gate_bias)
        self.candidate_bias = weights.constant("candidate_bias", (units,))

    def __call__(self, inputs: tf.Tensor, attention: tf.Tensor | None = None) -> list[tf.Tensor]:
        """Runs over time.

        Args:
            inputs: ``[T, B, I]``, T known.
            attention: ``[T, B]`` in 0..1, or None for a plain GRU.

        Returns:
            The state after each step, ``[B, units]``.
        """
        biases = [*tf.unstack(self.gate_biases), self.candidate_bias]
        projected = [
            tf.unstack(tf.nn.bias_add(project(inputs, kernel), tf.cast(bias, inputs.dtype)))
            for kernel, bias in zip(tf.unstack(self.kernels), biases, strict=True)
        ]
        recurrent = [tf.cast(kernel, inputs.dtype) for kernel in tf.unstack(self.recurrent_kernels)]
        steps = inputs.shape[0]
        carries = [None] * steps if attention is None else tf.unstack(1.0 - attention[..., tf.newaxis])
        states: list[tf.Tensor] = []
        for update, reset, candidate, carry in zip(*projected, carries, strict=True):
            if states:
                state = states[-1]
                update += tf.matmul(state, recurrent[0])
                reset = tf.sigmoid(reset + tf.matmul(state, recurrent[1]))
                candidate += reset * tf.matmul(state, recurrent[2])
            update, candidate = tf.sigmoid(update), tf.tanh(candidate)
            if carry is not None:
                update *= tf.cast(carry, update.dtype)
            states.append(candidate + update * (states[-1] - candidate) if states else candidate - update * candidate)
        return states
