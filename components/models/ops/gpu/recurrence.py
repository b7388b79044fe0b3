"""The gated recurrent units on a GPU: the formula of :mod:`components.models.ops.recurrence`, with fewer operations.

Inputs are projected for all steps at once. A step is then one product, of the state with the weights of all gates, and
one fused kernel that computes gates and state. Gates are not saved: recomputing them from the two products moves less
memory than writing and reading them.

The backward pass concatenates the gradients of the gates, so that a step has three products.
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from components.models.ops.choice import fused, is_compiled
from components.models.ops.recurrence import all_states, last_state


def gru(inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """See :func:`components.models.ops.recurrence.gru`; runs cuDNN except under XLA, which cannot call it."""
    if not is_compiled():
        return _cudnn_states(inputs, kernels, recurrent, biases)
    return all_states(_forward, _backward, inputs, kernels, recurrent, biases)


def augru(
    inputs: tf.Tensor, attention: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor
) -> tf.Tensor:
    """See :func:`components.models.ops.recurrence.augru`."""
    return last_state(_forward, _backward, inputs, kernels, recurrent, biases, 1.0 - attention)


def _cudnn_states(inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """All states of cuDNN's GRU, which also resets after the product; its second bias is 0.

    Its parameters are one vector: transposed input weights, transposed state weights, both biases; each in the order
    reset gate, update gate, candidate.
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


# x W and h U of each step, [B, 3 * units]; None for h U of the first step, whose previous state is 0.
Products = list[tuple[tf.Tensor, "tf.Tensor | None"]]


def _forward(
    inputs: tf.Tensor,
    kernels: tf.Tensor,
    recurrent: tf.Tensor,
    biases: tf.Tensor,
    carry: tf.Tensor | None = None,
) -> tuple[list[tf.Tensor], Products]:
    """The states, and the products for the backward pass."""
    steps = inputs.shape[0]
    of_inputs = tf.matmul(tf.reshape(inputs, [-1, inputs.shape[-1]]), tf.concat(tf.unstack(kernels), 1))
    of_state = tf.concat(tf.unstack(recurrent), 1)
    states: list[tf.Tensor] = []
    products: Products = []
    for projected, carried in zip(tf.split(of_inputs, steps), _by_step(carry, steps), strict=True):
        before = states[-1] if states else None
        recalled = None if before is None else tf.matmul(before, of_state)
        products.append((projected, recalled))
        states.append(_next_state(projected, recalled, biases, before, carried))
    return states, products


def _by_step(carry: tf.Tensor | None, steps: int) -> list[tf.Tensor | None]:
    return [None] * steps if carry is None else tf.unstack(carry, num=steps)


def _gates(
    projected: tf.Tensor, recalled: tf.Tensor | None, biases: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor, tf.Tensor | None]:
    """Update gate, reset gate, candidate and the candidate's share of the state, ``[B, units]`` each."""
    update, reset, candidate = (x + b for x, b in zip(tf.split(projected, 3, -1), tf.unstack(biases), strict=True))
    if recalled is None:
        return tf.sigmoid(update), None, tf.tanh(candidate), None
    of_update, of_reset, of_candidate = tf.split(recalled, 3, -1)
    reset = tf.sigmoid(reset + of_reset)
    return tf.sigmoid(update + of_update), reset, tf.tanh(candidate + reset * of_candidate), of_candidate


@fused
def _next_state(
    projected: tf.Tensor,
    recalled: tf.Tensor | None,
    biases: tf.Tensor,
    before: tf.Tensor | None,
    carried: tf.Tensor | None,
) -> tf.Tensor:
    update, _, candidate, _ = _gates(projected, recalled, biases)
    kept = update if carried is None else carried[:, tf.newaxis] * update
    return candidate - kept * candidate if before is None else candidate + kept * (before - candidate)


@fused
def _gate_gradients(
    upstream: Sequence[tf.Tensor],
    products: tuple[tf.Tensor, tf.Tensor | None],
    biases: tf.Tensor,
    before: tf.Tensor | None,
    carried: tf.Tensor | None,
) -> tuple[tf.Tensor, tf.Tensor | None, tf.Tensor | None]:
    """Gradients of a step's gates, of the previous state (without the part through the gates), and of the carry.

    The gates' gradients, ``[B, 4 * units]``, are those of update gate, reset gate, h Uc and candidate. Inputs do not
    affect the third, the state not the fourth.

    Args:
        upstream: gradients of the state, to sum; only the first ``units`` columns are read.
    """
    update, reset, candidate, recalled = _gates(*products, biases)
    units = update.shape[-1]
    total = tf.add_n([part[:, :units] for part in upstream])
    kept = update if carried is None else carried[:, tf.newaxis] * update
    held = total * kept
    of_candidate = tf.raw_ops.TanhGrad(y=candidate, dy=total - held)
    changed = total * (-candidate if before is None else before - candidate)
    of_carry = None if carried is None else tf.reduce_sum(changed * update, -1)
    of_update = tf.raw_ops.SigmoidGrad(y=update, dy=changed if carried is None else changed * carried[:, tf.newaxis])
    if reset is None:
        none = tf.zeros_like(update)
        return tf.concat([of_update, none, none, of_candidate], -1), None, of_carry
    of_reset = tf.raw_ops.SigmoidGrad(y=reset, dy=of_candidate * recalled)
    return tf.concat([of_update, of_reset, of_candidate * reset, of_candidate], -1), held, of_carry


def _backward(
    upstream: Sequence[tf.Tensor | None],
    states: list[tf.Tensor],
    products: Products,
    inputs: tf.Tensor,
    kernels: tf.Tensor,
    recurrent: tf.Tensor,
    biases: tf.Tensor,
    carry: tf.Tensor | None = None,
) -> list[tf.Tensor]:
    """Gradients of the arguments of :func:`_forward`; ``upstream`` is None for states without a direct gradient."""
    (wu, wr, wc), (uu, ur, uc) = tf.unstack(kernels), tf.unstack(recurrent)
    of_inputs = tf.concat([wu, wr, tf.zeros_like(wc), wc], 1)
    of_both = tf.concat([tf.concat([uu, ur, uc, tf.zeros_like(uc)], 1), of_inputs], 0)
    carries = _by_step(carry, len(states))
    steps = list(zip(tf.unstack(inputs), [None, *states[:-1]], products, upstream, carries, strict=True))
    # Newest step first.
    inputs_gradients, kernel_gradients, recurrent_gradients, bias_gradients, carry_gradients = [], [], [], [], []
    later: list[tf.Tensor] = []
    for inputs_now, before, activations, own, carried in reversed(steps):
        arriving = [*later, *([] if own is None else [own])]
        gates, held, of_carry = _gate_gradients(arriving, activations, biases, before, carried)
        carry_gradients.append(of_carry)
        # One product for previous state and inputs; readers slice its columns.
        joint = tf.matmul(gates, of_inputs if before is None else of_both, transpose_b=True)
        if before is not None:
            later = [held, joint]
            recurrent_gradients.append(tf.matmul(before, gates, transpose_a=True))
        inputs_gradients.append(joint)
        kernel_gradients.append(tf.matmul(inputs_now, gates, transpose_a=True))
        bias_gradients.append(tf.raw_ops.BiasAddGrad(out_backprop=gates)[tf.newaxis])
    gradients = [
        _last_columns(inputs_gradients[::-1], inputs),
        _by_gate(kernel_gradients, [0, 1, 3]),
        _by_gate(recurrent_gradients, [0, 1, 2]) if recurrent_gradients else tf.zeros_like(recurrent),
        tf.squeeze(_by_gate(bias_gradients, [0, 1, 3]), 1),
    ]
    return gradients if carry is None else [*gradients, tf.stack(carry_gradients[::-1])]


@fused
def _last_columns(of_steps: Sequence[tf.Tensor], inputs: tf.Tensor) -> tf.Tensor:
    """The last I columns of each step, ``[T, B, I]``."""
    return tf.stack([joint[:, -inputs.shape[-1] :] for joint in of_steps])


@fused
def _by_gate(of_steps: Sequence[tf.Tensor], gates: Sequence[int]) -> tf.Tensor:
    """The sum over steps, ``[I, 4 * units]``; these gates as ``[3, I, units]``, accumulated in float32."""
    total = tf.add_n([tf.cast(value, tf.float32) for value in of_steps])
    parts = tf.split(total, 4, -1)
    return tf.cast(tf.stack([parts[gate] for gate in gates]), of_steps[0].dtype)
