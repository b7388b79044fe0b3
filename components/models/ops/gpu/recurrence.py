"""The gated recurrent units on a GPU: the formula of :mod:`components.models.ops.recurrence`, with fewer operations.

Inputs are projected for all steps at once, so that a step has one product, of its state with the weights of all gates.
Backward, the gradients of the gates stand side by side: each of the four products with them is one a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from components.models.ops.choice import is_compiled

Gradient = Callable[[tf.Tensor], list[tf.Tensor]]


def gru(inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """See :func:`components.models.ops.recurrence.gru`; cuDNN's, unless XLA compiles, which cannot call it."""
    if not is_compiled():
        return _cudnn_states(inputs, kernels, recurrent, biases)

    @tf.custom_gradient
    def states(*given: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        states, saved = _forward(*given, compiled=True)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            with tf.name_scope("gru_gradient"):
                return _backward(tf.unstack(upstream, num=len(states)), states, saved, *given)

        return tf.stack(states), gradient

    return states(inputs, kernels, recurrent, biases)


def augru(
    inputs: tf.Tensor, attention: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor
) -> tf.Tensor:
    """See :func:`components.models.ops.recurrence.augru`."""
    compiled = is_compiled()

    @tf.custom_gradient
    def last_state(*given: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        states, saved = _forward(*given, compiled=compiled)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            with tf.name_scope("augru_gradient"):
                none: list[tf.Tensor | None] = [None] * (len(states) - 1)
                return _backward([*none, upstream], states, saved, *given)

        return states[-1], gradient

    return last_state(inputs, kernels, recurrent, biases, 1.0 - attention)


def _cudnn_states(inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """All states of cuDNN's GRU, which resets after the product, as ours; its second bias is 0.

    Its parameters are one vector: the transposed weights of the inputs, those of the state, both biases; of each first
    those of the reset gate, then of the update gate and the candidate.
    """
    ordered = [tf.stack([reset, update, new]) for update, reset, new in map(tf.unstack, (kernels, recurrent, biases))]
    of_inputs, of_state, bias = ordered
    parts = [tf.linalg.matrix_transpose(of_inputs), tf.linalg.matrix_transpose(of_state), bias, tf.zeros_like(bias)]
    units = recurrent.shape[-1]
    states, *_ = tf.raw_ops.CudnnRNN(
        input=inputs,
        input_h=tf.zeros([1, tf.shape(inputs)[1], units], inputs.dtype),
        input_c=tf.zeros([], inputs.dtype),
        params=tf.concat([tf.reshape(part, [-1]) for part in parts], 0),
        rnn_mode="gru",
        is_training=True,
    )
    return states


class _Step(NamedTuple):
    """What the backward pass needs of one step, each ``[B, units]``; the first step has no state before it."""

    update: tf.Tensor
    candidate: tf.Tensor
    kept: tf.Tensor | None  # u', None where XLA computes it again rather than reads it
    change: tf.Tensor | None  # h - c, the same
    reset: tf.Tensor | None
    recalled: tf.Tensor | None  # h Uc


def _forward(
    inputs: tf.Tensor,
    kernels: tf.Tensor,
    recurrent: tf.Tensor,
    biases: tf.Tensor,
    carry: tf.Tensor | None = None,
    *,
    compiled: bool,
) -> tuple[list[tf.Tensor], list[_Step]]:
    steps = inputs.shape[0]
    projected = _of_gates(tf.reshape(inputs, [-1, inputs.shape[-1]]), kernels, compiled, None if compiled else biases)
    by_step = zip(*(tf.split(gate, steps) for gate in projected), strict=True)
    # What is element-wise, XLA does where it reads the projection, rather than by a pass over all steps.
    added = tf.unstack(biases) if compiled else None
    carries = [None] * steps if carry is None else tf.unstack(carry[..., tf.newaxis])
    states: list[tf.Tensor] = []
    saved: list[_Step] = []
    for gates, carried in zip(by_step, carries, strict=True):
        update, reset, candidate = (g + b for g, b in zip(gates, added, strict=True)) if added else gates
        recalled = None
        if states:
            of_update, of_reset, recalled = _of_gates(states[-1], recurrent, compiled)
            update, reset = tf.sigmoid(update + of_update), tf.sigmoid(reset + of_reset)
            candidate = tf.tanh(candidate + reset * recalled)
        else:
            update, reset, candidate = tf.sigmoid(update), None, tf.tanh(candidate)
        kept = update if carried is None else carried * update
        change = states[-1] - candidate if states else -candidate
        # XLA computes these two again sooner than it reads them.
        kept_of_step, change_of_step = (None, None) if compiled else (kept, change)
        saved.append(_Step(update, candidate, kept_of_step, change_of_step, reset, recalled))
        states.append(candidate + kept * change)
    return states, saved


def _of_gates(x: tf.Tensor, weights: tf.Tensor, compiled: bool, biases: tf.Tensor | None = None) -> list[tf.Tensor]:
    """``x W + b`` of each gate by one product, ``[B, units]`` each.

    XLA reads the columns of a joint result where it needs them. Without it that takes a copy; the gates then are a
    batch of products, whose results lie one after the other.
    """
    if compiled:
        return tf.split(tf.matmul(x, tf.concat(tf.unstack(weights), 1)), 3, -1)
    products = tf.matmul(x[tf.newaxis], weights)
    return tf.unstack(products if biases is None else products + biases[:, tf.newaxis])


def _backward(
    upstream: Sequence[tf.Tensor | None],
    states: list[tf.Tensor],
    saved: list[_Step],
    inputs: tf.Tensor,
    kernels: tf.Tensor,
    recurrent: tf.Tensor,
    biases: tf.Tensor,
    carry: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """Gradients of everything :func:`_forward` takes; ``upstream`` is None where nothing depends on a state directly.

    The gradients of a step's gates are those of the update gate, the reset gate, the candidate's share of the state and
    the candidate, ``[B, 4 * units]``. Inputs do not have a part in the third, the state none in the fourth.
    """
    (wu, wr, wc), (uu, ur, uc) = tf.unstack(kernels), tf.unstack(recurrent)
    of_inputs = tf.concat([wu, wr, tf.zeros_like(wc), wc], 1)
    of_state = tf.concat([uu, ur, uc, tf.zeros_like(uc)], 1)
    compiled = saved[0].kept is None
    of_both = tf.concat([of_state, of_inputs], 0)
    carries = [None] * len(saved) if carry is None else tf.unstack(carry[..., tf.newaxis])
    steps = list(zip(tf.unstack(inputs), [None, *states[:-1]], saved, upstream, carries, strict=True))
    # Newest step first.
    inputs_gradients, kernel_gradients, recurrent_gradients, bias_gradients, carry_gradients = [], [], [], [], []
    later: list[tf.Tensor] = []
    for inputs_now, before, step, own, carried in reversed(steps):
        total = tf.add_n([*later, *([] if own is None else [own])])
        kept, change = step.kept, step.change
        if kept is None:
            kept = step.update if carried is None else carried * step.update
            change = -step.candidate if before is None else before - step.candidate
        held = total * kept
        candidate = tf.raw_ops.TanhGrad(y=step.candidate, dy=total - held)
        changed = total * change
        if carried is not None:
            carry_gradients.append(tf.reduce_sum(changed * step.update, -1))
            changed *= carried
        update = tf.raw_ops.SigmoidGrad(y=step.update, dy=changed)
        if before is None:
            none = tf.zeros_like(update)
            gates = tf.concat([update, none, none, candidate], -1)
        else:
            reset = tf.raw_ops.SigmoidGrad(y=step.reset, dy=candidate * step.recalled)
            gates = tf.concat([update, reset, candidate * step.reset, candidate], -1)
            recurrent_gradients.append(tf.matmul(before, gates, transpose_a=True))
        # One product for both, where their parts need not be copied from it.
        if before is not None and compiled:
            joint = tf.matmul(gates, of_both, transpose_b=True)
            of_before, of_now = tf.split(joint, [of_state.shape[0], of_inputs.shape[0]], -1)
            later = [held, of_before]
        else:
            of_now = tf.matmul(gates, of_inputs, transpose_b=True)
            later = [] if before is None else [held, tf.matmul(gates, of_state, transpose_b=True)]
        inputs_gradients.append(of_now)
        kernel_gradients.append(tf.matmul(inputs_now, gates, transpose_a=True))
        bias_gradients.append(tf.raw_ops.BiasAddGrad(out_backprop=gates)[tf.newaxis])
    gradients = [
        tf.stack(inputs_gradients[::-1]),
        _by_gate(kernel_gradients, [0, 1, 3]),
        _by_gate(recurrent_gradients, [0, 1, 2]) if recurrent_gradients else tf.zeros_like(recurrent),
        tf.squeeze(_by_gate(bias_gradients, [0, 1, 3]), 1),
    ]
    return gradients if carry is None else [*gradients, tf.stack(carry_gradients[::-1])]


def _by_gate(of_steps: list[tf.Tensor], gates: Sequence[int]) -> tf.Tensor:
    """The sum of what the steps give, ``[I, 4 * units]``, of these gates as ``[3, I, units]``; added up in float32."""
    total = tf.add_n([tf.cast(value, tf.float32) for value in of_steps])
    parts = tf.split(total, 4, -1)
    return tf.cast(tf.stack([parts[gate] for gate in gates]), of_steps[0].dtype)
