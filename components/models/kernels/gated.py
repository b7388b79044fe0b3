"""The gated recurrence as an operation of TensorFlow that calls the kernels of recurrence.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from components.models.kernels import host, recurrence
from components.models.kernels.products import GRAIN

_NOTHING = np.zeros(0, np.float32)
Gradient = Callable[..., list[tf.Tensor]]


def fits(inputs: tf.Tensor, units: int) -> bool:
    """Whether the kernels may be called, and can compute a recurrence over ``inputs``, ``[T, B, I]``."""
    return host.are_allowed() and inputs.dtype == tf.float32 and inputs.shape[-1] % GRAIN == 0 and units % GRAIN == 0


def all_states(uses: int, present: tf.Tensor | None, inputs: tf.Tensor, *rest: tf.Tensor) -> list[tf.Tensor]:
    """The state after each step, ``[T, B, H]``, once for each use.

    What the uses say about it is added up where the backward pass reads it.

    Args:
        uses: how many.
        present: ``[T, B]``, what the inputs are multiplied with and what has no gradient; or None.
        inputs: ``[T, B, I]``.
        rest: kernels ``[3, I, H]``, recurrent kernels ``[3, H, H]``, biases ``[3, H]`` and, with attention, what of a
            state is carried on at most, ``[T, B]``.
    """

    @tf.custom_gradient
    def compute(inputs: tf.Tensor, *rest: tf.Tensor) -> tuple[list[tf.Tensor], Gradient]:
        states, saved = _forward(present, [inputs, *rest])
        return [states] * uses, lambda *upstreams: _backward(present, [inputs, *rest], states, saved, upstreams)

    return list(compute(inputs, *rest))


@tf.custom_gradient
def last_state(*arguments: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
    """The state after the last step, ``[B, H]``; arguments as of :func:`all_states`, from the inputs on."""
    states, saved = _forward(None, arguments)
    return states[-1], lambda upstream: _backward(None, arguments, states, saved, [upstream])


def _forward(present: tf.Tensor | None, arguments: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    inputs, _, recurrent, *_ = arguments
    shapes = [inputs.shape[:2] + recurrent.shape[2:], tf.TensorShape([None])]
    return host.call(_run_forward, [_or_nothing(present), *arguments], shapes)


def _backward(
    present: tf.Tensor | None,
    arguments: Sequence[tf.Tensor],
    states: tf.Tensor,
    saved: tf.Tensor,
    upstreams: Sequence[tf.Tensor],
) -> list[tf.Tensor]:
    def run_backward(states: np.ndarray, saved: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
        return _run_backward(states, saved, arrays[: len(upstreams)], *arrays[len(upstreams) :])

    given = [states, saved, *upstreams, _or_nothing(present), *arguments]
    return host.call(run_backward, given, [argument.shape for argument in arguments])


def _or_nothing(present: tf.Tensor | None) -> tf.Tensor:
    return tf.zeros([0]) if present is None else present


def _run_forward(
    present: np.ndarray,
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
    flat = inputs.reshape(-1), present.reshape(-1), carry.reshape(-1), weights, biases.reshape(-1)

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        recurrence.forward(*flat, sizes, first, last, saved, room, states.reshape(-1))

    host.in_parts(work, -(-samples // recurrence.TILE), recurrence.forward_room(width, units))
    return [states, saved]


def _run_backward(
    states: np.ndarray,
    saved: np.ndarray,
    upstreams: Sequence[np.ndarray],
    present: np.ndarray,
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
    flat = inputs.reshape(-1), present.reshape(-1), carry.reshape(-1), weights
    of_states = tuple(upstream.reshape(-1) for upstream in upstreams)
    tiles = -(-samples // recurrence.TILE)
    parts = host.floats(host.parts(tiles), (width + units + 1) * 3 * units)
    own = np.split(parts, np.cumsum([width, units]) * 3 * units, 1)

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        parts[part].fill(0)
        sums = [gradient[part] for gradient in own]
        recurrence.backward(
            *flat, sizes, first, last, saved, states.reshape(-1), of_states,
            upstreams[0].ndim == 3, room, of_inputs.reshape(-1), *sums, of_carry.reshape(-1),
        )  # fmt: skip

    host.in_parts(work, tiles, recurrence.backward_room(width, units))
    by_gate = host.summed(parts).reshape(-1, 3, units).swapaxes(0, 1)
    in_order = [1, 2, 0]  # what belongs to inputs begins with the candidate
    of_weights = by_gate[in_order, :width], by_gate[:, width:-1], by_gate[in_order, -1]
    gradients = [of_inputs, *(np.ascontiguousarray(gradient) for gradient in of_weights)]
    return [*gradients, of_carry] if carry.ndim == 2 else gradients
