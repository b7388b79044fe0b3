"""The gated recurrence as a TensorFlow operation that calls the kernels of recurrence.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from components.models.ops.host import host, recurrence
from components.models.ops.host.products import GRAIN

_NOTHING = np.zeros(0, np.float32)
Gradient = Callable[[tf.Tensor], list[tf.Tensor]]


def gru(inputs: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
    """See ``components.models.ops.recurrence.gru``."""
    return _all_states(inputs, *weights) if _supports(inputs, *weights) else NotImplemented


def augru(inputs: tf.Tensor, attention: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
    """See ``components.models.ops.recurrence.augru``."""
    return _last_state(inputs, *weights, 1.0 - attention) if _supports(inputs, *weights) else NotImplemented


def _supports(inputs: tf.Tensor, kernels: tf.Tensor, recurrent: tf.Tensor, biases: tf.Tensor) -> bool:
    return inputs.dtype == tf.float32 and inputs.shape[-1] % GRAIN == 0 and biases.shape[-1] % GRAIN == 0


@tf.custom_gradient
def _all_states(*args: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    states, saved = _forward(args)
    return states, lambda upstream: _backward(args, states, saved, upstream)


@tf.custom_gradient
def _last_state(*args: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    states, saved = _forward(args)
    return states[-1], lambda upstream: _backward(args, states, saved, upstream)


def _forward(args: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    inputs, _, recurrent, *_ = args
    return host.call(_run_forward, args, [inputs.shape[:2] + recurrent.shape[2:], tf.TensorShape([None])])


def _backward(args: Sequence[tf.Tensor], states: tf.Tensor, saved: tf.Tensor, upstream: tf.Tensor) -> list[tf.Tensor]:
    return host.call(_run_backward, [states, saved, upstream, *args], [argument.shape for argument in args])


def _run_forward(
    inputs: np.ndarray,
    kernels: np.ndarray,
    recurrent: np.ndarray,
    biases: np.ndarray,
    carry: np.ndarray = _NOTHING,
) -> list[np.ndarray]:
    steps, samples, width = inputs.shape
    units = recurrent.shape[-1]
    sizes = steps, samples, width, units
    states = host.floats(steps, samples, units)
    saved = host.floats(recurrence.saved_size(steps, samples, units))
    weights = recurrence.packed_forward(kernels, recurrent)
    flat = inputs.reshape(-1), carry.reshape(-1), weights, biases.reshape(-1)

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        recurrence.forward(*flat, sizes, first, last, saved, room, states.reshape(-1))

    host.in_parts(work, -(-samples // recurrence.TILE), recurrence.forward_room(width, units))
    return [states, saved]


def _run_backward(
    states: np.ndarray,
    saved: np.ndarray,
    upstream: np.ndarray,
    inputs: np.ndarray,
    kernels: np.ndarray,
    recurrent: np.ndarray,
    biases: np.ndarray,
    carry: np.ndarray = _NOTHING,
) -> list[np.ndarray]:
    steps, samples, width = inputs.shape
    units = recurrent.shape[-1]
    sizes = steps, samples, width, units
    weights = recurrence.packed_backward(kernels, recurrent)
    of_inputs, of_carry = host.floats(*inputs.shape), host.floats(*carry.shape)
    flat = inputs.reshape(-1), carry.reshape(-1), weights
    tiles = -(-samples // recurrence.TILE)
    parts = host.floats(host.parts(tiles), (width + units + 1) * 3 * units)
    own = np.split(parts, np.cumsum([width, units]) * 3 * units, 1)

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        parts[part].fill(0)
        sums = [gradient[part] for gradient in own]
        recurrence.backward(
            *flat, sizes, first, last, saved, states.reshape(-1), upstream.reshape(-1), upstream.ndim == 3, room,
            of_inputs.reshape(-1), *sums, of_carry.reshape(-1),
        )  # fmt: skip

    host.in_parts(work, tiles, recurrence.backward_room(width, units))
    by_gate = host.summed(parts).reshape(-1, 3, units).swapaxes(0, 1)
    in_order = [1, 2, 0]  # gradients of input weights begin with the candidate
    of_weights = by_gate[in_order, :width], by_gate[:, width:-1], by_gate[in_order, -1]
    gradients = [of_inputs, *(np.ascontiguousarray(gradient) for gradient in of_weights)]
    return [*gradients, of_carry] if carry.ndim == 2 else gradients
