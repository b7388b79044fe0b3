"""The gated recurrent unit, with and without attention, over a short sequence.

    u = sigmoid(x Wu + h Uu + bu)           update gate
    r = sigmoid(x Wr + h Ur + br)           reset gate
    c = tanh(x Wc + r * (h Uc) + bc)        candidate
    u' = (1 - a) * u
    h' = c + u' * (h - c)

Without attention a, u' is u. T steps, B samples, inputs of I floats, H units. Tensors are time-major, so that a step is
a contiguous block.

Forward, each gate is one product with [x, h], fused with its bias and sigmoid; the candidate's inputs are projected by
one product for all steps. Gates have separate products, because slicing a joint one costs a copy; the first step, with
a zero state, reads only x. The explicit backward pass concatenates the gradients of the three gates, so that each
product with them is one.

References:
    Cho et al. 2014, https://arxiv.org/abs/1406.1078; Zhou et al., Deep Interest Evolution Network,
    https://arxiv.org/abs/1809.03672
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from components.models.ops.choice import operation
from components.models.ops.dense import project

Gradient = Callable[[tf.Tensor], list[tf.Tensor]]
Forward = Callable[..., tuple[list[tf.Tensor], Any]]
Backward = Callable[..., list[tf.Tensor]]


@operation()
def gru(inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """All states of a gated recurrent unit.

    Args:
        inputs: ``[T, B, I]``, T static.
        kernels: W ``[3, I, H]`` of update gate, reset gate and candidate.
        recurrent: U ``[3, H, H]``.
        biases: b ``[3, H]``.

    Returns:
        The state after each step, ``[T, B, H]``.
    """
    return all_states(_forward, _backward, inputs, kernels, recurrent, biases)


@operation()
def augru(
    inputs: tf.Tensor, attention: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor
) -> tf.Tensor:
    """The last state of a gated recurrent unit whose update gate is scaled by attention.

    Args:
        inputs: ``[T, B, I]``, T static; or ``[T, 1, I]``, shared by all samples, without a gradient.
        attention: a ``[T, B]`` in 0..1, in the dtype of the inputs.
        kernels, recurrent, biases: as of ``gru``.

    Returns:
        The state after the last step, ``[B, H]``.
    """
    return last_state(_forward, _backward, inputs, kernels, recurrent, biases, 1.0 - attention)


def all_states(forward: Forward, backward: Backward, *arguments: tf.Tensor) -> tf.Tensor:
    """The states of ``forward``, stacked, with the gradients of ``backward``."""

    @tf.custom_gradient
    def states(*args: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        states, saved = forward(*args)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            with tf.name_scope("gru_gradient"):
                return backward(tf.unstack(upstream, num=len(states)), states, saved, *args)

        return tf.stack(states), gradient

    return states(*arguments)


def last_state(forward: Forward, backward: Backward, *arguments: tf.Tensor) -> tf.Tensor:
    """The last state of ``forward``, with the gradients of ``backward``."""

    @tf.custom_gradient
    def state(*args: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        states, saved = forward(*args)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            none: list[tf.Tensor | None] = [None] * (len(states) - 1)
            with tf.name_scope("augru_gradient"):
                return backward([*none, upstream], states, saved, *args)

        return states[-1], gradient

    return state(*arguments)


class _Step(NamedTuple):
    """Saved tensors of one step for the backward pass, each ``[B, units]``; the first step has no previous state."""

    update: tf.Tensor
    candidate: tf.Tensor
    kept: tf.Tensor  # u'
    change: tf.Tensor  # h - c
    reset: tf.Tensor | None
    recalled: tf.Tensor | None  # h Uc


def _forward(
    inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor, carry: tf.Tensor | None = None
) -> tuple[list[tf.Tensor], list[_Step]]:
    of_update, of_reset, of_candidate = tf.unstack(kernels)
    update_bias, reset_bias, candidate_bias = tf.unstack(biases)
    recalls_update, recalls_reset, recalls_candidate = tf.unstack(recurrent)
    gate_kernels = tf.concat([of_update, recalls_update], 0), tf.concat([of_reset, recalls_reset], 0)
    steps = tf.unstack(inputs), tf.unstack(project(inputs, of_candidate, candidate_bias))
    carries = [None] * inputs.shape[0] if carry is None else tf.unstack(carry[..., tf.newaxis])
    states: list[tf.Tensor] = []
    saved: list[_Step] = []
    of_many = carry is not None and inputs.shape[1] == 1 and carry.shape[1] != 1
    for inputs_now, candidate, carried in zip(*steps, carries, strict=True):
        reset = recalled = None
        if states and of_many:  # one sample's inputs are projected once

            def recall(kernel: tf.Tensor, added: tf.Tensor | float = 0.0) -> tf.Tensor:
                if len(states) > 1:
                    return added + tf.matmul(states[-1], kernel)
                # The first state is linear in its carry, with factors of the one sample.
                (first,) = saved
                fixed = added + tf.matmul(first.candidate, kernel)
                return fixed + carries[0] * tf.matmul(first.update * first.change, kernel)

            update, reset = (
                tf.sigmoid(recall(recalls, project(inputs_now, of_inputs, bias)))
                for of_inputs, recalls, bias in (
                    (of_update, recalls_update, update_bias),
                    (of_reset, recalls_reset, reset_bias),
                )
            )
            recalled = recall(recalls_candidate)
            candidate += reset * recalled
        elif states:
            read = tf.concat([inputs_now, states[-1]], -1)
            update, reset = (
                tf.sigmoid(project(read, kernel, bias))
                for kernel, bias in zip(gate_kernels, (update_bias, reset_bias), strict=True)
            )
            recalled = tf.matmul(states[-1], recalls_candidate)
            candidate += reset * recalled
        else:
            update = tf.sigmoid(project(inputs_now, of_update, update_bias))
        candidate = tf.tanh(candidate)
        kept = update if carried is None else carried * update
        change = states[-1] - candidate if states else -candidate
        saved.append(_Step(update, candidate, kept, change, reset, recalled))
        states.append(candidate + kept * change)
    return states, saved


def _backward(
    upstream: list[tf.Tensor | None],
    states: list[tf.Tensor],
    saved: list[_Step],
    inputs: tf.Tensor,
    kernels: tf.Tensor,
    recurrent: tf.Tensor,
    biases: tf.Tensor,
    carry: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """Gradients of the arguments of ``_forward``.

    Args:
        upstream: each state's upstream gradient, None if the output does not depend on it directly.
        states, saved: of the forward pass.
    """
    kernel, recurrent_kernel = (tf.concat(tf.unstack(gates), 1) for gates in (kernels, recurrent))
    carries = [None] * len(saved) if carry is None else tf.unstack(carry[..., tf.newaxis])
    steps = list(zip(tf.unstack(inputs), [None, *states[:-1]], saved, upstream, carries, strict=True))
    # Newest step first.
    of_inputs, of_kernel, of_recurrent, of_bias, of_carry = [], [], [], [], []
    later: list[tf.Tensor] = []
    for inputs_now, before, step, own, carried in reversed(steps):
        total = tf.add_n([*later, *([] if own is None else [own])])
        held = total * step.kept
        candidate = tf.raw_ops.TanhGrad(y=step.candidate, dy=total - held)
        kept = total * step.change
        if carried is not None:
            of_carry.append(tf.reduce_sum(kept * step.update, -1))
            kept *= carried
        update = tf.raw_ops.SigmoidGrad(y=step.update, dy=kept)
        if before is None:
            reset = tf.zeros_like(update)
        else:
            reset = tf.raw_ops.SigmoidGrad(y=step.reset, dy=candidate * step.recalled)
            recalls = tf.concat([update, reset, candidate * step.reset], -1)
            of_recurrent.append(_outer(before, recalls))
            later = [held, tf.matmul(recalls, recurrent_kernel, transpose_b=True)]
        gates = tf.concat([update, reset, candidate], -1)
        of_inputs.append(tf.matmul(gates, kernel, transpose_b=True))
        of_kernel.append(_outer(inputs_now, gates))
        of_bias.append(tf.raw_ops.BiasAddGrad(out_backprop=gates)[tf.newaxis])
    gradients = [
        tf.stack(of_inputs[::-1]),
        _by_gate(of_kernel),
        _by_gate(of_recurrent) if of_recurrent else tf.zeros_like(recurrent),
        tf.squeeze(_by_gate(of_bias), 1),
    ]
    return gradients if carry is None else [*gradients, tf.stack(of_carry[::-1])]


def _outer(left: tf.Tensor, right: tf.Tensor) -> tf.Tensor:
    """The outer products of ``[B, I]`` and ``[B, O]``, summed over samples: ``[I, O]``."""
    return tf.matmul(left, right, transpose_a=True)


def _by_gate(of_steps: list[tf.Tensor]) -> tf.Tensor:
    """The sum over steps, ``[I, 3 * units]``, as ``[3, I, units]``; accumulated in float32."""
    total = tf.add_n([tf.cast(value, tf.float32) for value in of_steps])
    return tf.cast(tf.stack(tf.split(total, 3, -1)), of_steps[0].dtype)
