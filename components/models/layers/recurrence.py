"""The gated recurrent unit, with or without attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from components.models.layers.dense import project
from components.models.layers.weights import Weights


class GatedRecurrence(tf.Module):
    """A GRU, or given attention a an AUGRU, over a short sequence.

        u = sigmoid(x Wu + h Uu + bu)           update gate
        r = sigmoid(x Wr + h Ur + br)           reset gate
        c = tanh(x Wc + r * (h Uc) + bc)        candidate
        u' = (1 - a) * u
        h' = c + u' * (h - c)

    Without attention u' is u. The gradient is written out here: that of a weight is one product over all steps at the
    end, where a tape makes one a step and adds them up.

    Time comes first, so that a step is a contiguous block; the inputs of all steps are projected by one product a gate
    before the loop; the gates have products of their own, because slicing a joint one costs a copy; the first step,
    whose state is 0, has none.

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

    def states(self, inputs: tf.Tensor, attention: tf.Tensor | None = None) -> tf.Tensor:
        """Runs over time.

        Args:
            inputs: ``[T, B, I]``, T known.
            attention: ``[T, B]`` in 0..1, or None for a plain GRU.

        Returns:
            The state after each step, ``[T, B, units]``.
        """
        return _all_states(*self._arguments(inputs, attention))

    def last_state(self, inputs: tf.Tensor, attention: tf.Tensor | None = None) -> tf.Tensor:
        """The state after the last step, ``[B, units]``."""
        return _last_state(*self._arguments(inputs, attention))

    def _arguments(self, inputs: tf.Tensor, attention: tf.Tensor | None) -> list[tf.Tensor]:
        biases = tf.concat([self.gate_biases, self.candidate_bias[tf.newaxis]], 0)
        carries = [] if attention is None else [1.0 - attention]
        return [inputs, *(tf.cast(x, inputs.dtype) for x in (self.kernels, self.recurrent_kernels, biases, *carries))]


class _Step(NamedTuple):
    """What the backward pass needs of one step, each ``[B, units]``; the first step has no state before it."""

    update: tf.Tensor
    candidate: tf.Tensor
    kept: tf.Tensor  # u'
    change: tf.Tensor  # h - c
    reset: tf.Tensor | None
    recalled: tf.Tensor | None  # h Uc


Gradient = Callable[[tf.Tensor], list[tf.Tensor]]


@tf.custom_gradient
def _all_states(inputs: tf.Tensor, *rest: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    states, saved = _forward(inputs, *rest)
    stacked = tf.stack(states)

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        return _backward(tf.unstack(upstream, num=len(states)), saved, stacked, inputs, *rest)

    return stacked, gradient


@tf.custom_gradient
def _last_state(inputs: tf.Tensor, *rest: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    states, saved = _forward(inputs, *rest)

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        none: list[tf.Tensor | None] = [None] * (len(states) - 1)
        return _backward([*none, upstream], saved, tf.stack(states), inputs, *rest)

    return states[-1], gradient


def _forward(
    inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor, carry: tf.Tensor | None = None
) -> tuple[list[tf.Tensor], list[_Step]]:
    projected = [
        tf.unstack(project(inputs, kernel, bias))
        for kernel, bias in zip(tf.unstack(kernels), tf.unstack(biases), strict=True)
    ]
    of_update, of_reset, of_candidate = tf.unstack(recurrent)
    carries = [None] * inputs.shape[0] if carry is None else tf.unstack(carry[..., tf.newaxis])
    states: list[tf.Tensor] = []
    saved: list[_Step] = []
    for update, reset, candidate, carried in zip(*projected, carries, strict=True):
        recalled = None
        if states:
            state = states[-1]
            update += tf.matmul(state, of_update)
            reset = tf.sigmoid(reset + tf.matmul(state, of_reset))
            recalled = tf.matmul(state, of_candidate)
            candidate += reset * recalled
        update, candidate = tf.sigmoid(update), tf.tanh(candidate)
        kept = update if carried is None else carried * update
        change = states[-1] - candidate if states else -candidate
        saved.append(_Step(update, candidate, kept, change, reset if states else None, recalled))
        states.append(candidate + kept * change)
    return states, saved


def _backward(
    upstream: list[tf.Tensor | None],
    saved: list[_Step],
    states: tf.Tensor,
    inputs: tf.Tensor,
    kernels: tf.Tensor,
    recurrent: tf.Tensor,
    biases: tf.Tensor,
    carry: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """Gradients of everything :func:`_forward` takes.

    Args:
        upstream: the gradient of each step's state, None where nothing depends on it directly.
        saved: of the forward pass.
        states: ``[T, B, units]``.
    """
    of_update, of_reset, of_candidate = tf.unstack(recurrent)
    carries = [None] * len(saved) if carry is None else tf.unstack(carry[..., tf.newaxis])
    # Of the pre-activations, newest step first; the last is that of h Uc.
    updates, resets, candidates, recalls, of_carry = [], [], [], [], []
    later: list[tf.Tensor] = []
    for step, own, carried in zip(reversed(saved), reversed(upstream), reversed(carries), strict=True):
        total = _sum([*later, *([] if own is None else [own])])
        held = total * step.kept
        candidate = tf.raw_ops.TanhGrad(y=step.candidate, dy=total - held)
        kept = total * step.change
        if carried is not None:
            of_carry.append(tf.reduce_sum(kept * step.update, -1))
            kept *= carried
        update = tf.raw_ops.SigmoidGrad(y=step.update, dy=kept)
        updates.append(update)
        candidates.append(candidate)
        if step.reset is None:
            break
        reset = tf.raw_ops.SigmoidGrad(y=step.reset, dy=candidate * step.recalled)
        recall = candidate * step.reset
        resets.append(reset)
        recalls.append(recall)
        later = [held, *(tf.matmul(gate, kernel, transpose_b=True)
                 for gate, kernel in ((update, of_update), (reset, of_reset), (recall, of_candidate)))]  # fmt: skip
    gates = [tf.stack(steps[::-1]) for steps in (updates, [*resets, tf.zeros_like(updates[0])], candidates)]
    ones = tf.ones_like(inputs[..., :1])  # a sum over rows is faster as a product
    gradients = [
        _sum([project(gate, tf.transpose(kernel)) for gate, kernel in zip(gates, tf.unstack(kernels), strict=True)]),
        tf.stack([_outer(inputs, gate) for gate in gates]),
        tf.stack([_outer(states[:-1], gate) for gate in (gates[0][1:], gates[1][1:], tf.stack(recalls[::-1]))])
        if recalls
        else tf.zeros_like(recurrent),
        tf.concat([_outer(ones, gate) for gate in gates], 0),
    ]
    return gradients if carry is None else [*gradients, tf.stack(of_carry[::-1])]


def _outer(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """The sum over steps and samples of the products of ``[T, B, I]`` and ``[T, B, O]``: ``[I, O]``."""
    return tf.matmul(_rows(left), _rows(right), transpose_a=True)


def _rows(values: tf.Tensor) -> tf.Tensor:
    return tf.reshape(values, [-1, values.shape[-1]])


def _sum(values: list[tf.Tensor]) -> tf.Tensor:
    return values[0] if len(values) == 1 else tf.add_n(values)
