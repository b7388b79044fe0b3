"""The network that scores pairs as an operation of TensorFlow that calls the kernels of pairs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from components.models.kernels import host, pairs
from components.models.kernels.products import GRAIN, padded, widened

_NOTHING = np.zeros(0, np.float32)


def fits(*operands: tf.Tensor) -> bool:
    """Whether the kernels may be called, and can read these operands of pairs, ``[..., width]``."""
    return host.are_allowed() and all(x.dtype == tf.float32 and x.shape[-1] % GRAIN == 0 for x in operands)


@tf.custom_gradient
def scores(x: tf.Tensor, other: tf.Tensor, *layers: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list]]:
    """Scores of x with something else by two hidden layers with sigmoids.

    Args:
        x: ``[T, B, I]``.
        other: y, ``[N, T, B, J]``, where x may have more than T steps; or one for all steps that x is multiplied with,
            ``[B, I]``: then y = x * other.
        layers: what is added to the first layer, ``[B, F1]`` or ``[F1]``; the weights of x and of y in the first
            layer, ``[I, F1]`` and ``[J, F1]``; weights and bias of the second, ``[F1, F2]`` and ``[F2]``, and of the
            output, ``[F2, 1]`` and ``[1]``.

    Returns:
        ``[N, T, B]``, or ``[T, B]`` where there is no y.
    """
    given = [x, other, *layers]
    shape = (x if other.shape.rank == 2 else other).shape[:-1]
    result, kept = host.call(_run_forward, given, [shape, tf.TensorShape([None])])

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        return host.call(_run_backward, [kept, upstream, *given], [argument.shape for argument in given])

    return result, gradient


class _Layers(NamedTuple):
    """The layers as :func:`scores` takes them."""

    share: np.ndarray
    of_x: np.ndarray
    of_y: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray

    def sizes(self, x: np.ndarray, other: np.ndarray) -> pairs.Sizes:
        kinds, steps = other.shape[:2] if other.ndim == 4 else (1, len(x))
        return steps, x.shape[1], x.shape[2], other.shape[-1], kinds, self.of_x.shape[-1], self.second.shape[-1]


def _run_forward(x: np.ndarray, other: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    layers = _Layers(*weights)
    sizes = layers.sizes(x, other)
    wide, narrow = padded(sizes[-2]), padded(sizes[-1])
    result = host.floats(*(other if other.ndim == 4 else x).shape[:-1])
    kept = host.floats(pairs.kept_size(sizes))
    operands = x.reshape(-1), *_operands(other), widened(layers.share, wide)
    panels = pairs.packed_forward(layers.of_x, layers.of_y, layers.second)
    output = np.append(widened(layers.output.reshape(-1), narrow), layers.output_bias)
    flat = *operands, panels, widened(layers.second_bias, narrow), output

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        pairs.forward(*flat, sizes, wide, narrow, first, last, room, kept, result.reshape(-1))

    host.in_parts(work, -(-x.shape[1] // pairs.TILE), pairs.forward_room(sizes))
    return [result, kept]


def _run_backward(
    kept: np.ndarray, upstream: np.ndarray, x: np.ndarray, other: np.ndarray, *weights: np.ndarray
) -> list[np.ndarray]:
    layers = _Layers(*weights)
    sizes = layers.sizes(x, other)
    steps, samples, inputs, others, _, first_units, second_units = sizes
    wide, narrow = padded(first_units), padded(second_units)
    own_share = layers.share.ndim == 2
    gradient_x, gradient_other = host.floats(*x.shape), host.floats(*other.shape)
    gradient_x[steps:] = 0.0
    gradient_shares = host.floats(samples if own_share else 0, wide)
    panels = pairs.packed_backward(layers.of_x, layers.of_y, layers.second)
    flat = x.reshape(-1), *_operands(other), own_share, panels, widened(layers.output.reshape(-1), narrow)
    of_operands = gradient_x.reshape(-1), *_operands(gradient_other), gradient_shares.reshape(-1)
    tiles = -(-samples // pairs.TILE)
    parts = host.floats(host.parts(tiles), sum(pairs.gradient_sizes(sizes)))
    edges = np.cumsum(pairs.gradient_sizes(sizes))[:-1]
    own = np.split(parts, edges, 1)

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        parts[part].fill(0)
        sums = [gradient[part] for gradient in own]
        pairs.backward(
            *flat, sizes, wide, narrow, first, last, kept, upstream.reshape(-1), room, *of_operands, *sums
        )  # fmt: skip

    host.in_parts(work, tiles, pairs.backward_room(sizes))
    of_wx, of_wy, of_second, of_share, of_second_bias, of_output, of_output_bias = np.split(host.summed(parts), edges)
    return [
        gradient_x,
        gradient_other,
        _narrowed(gradient_shares if own_share else of_share, first_units),
        _narrowed(of_wx.reshape(inputs, wide), first_units),
        _narrowed(of_wy.reshape(others, wide), first_units),
        _narrowed(of_second.reshape(wide, narrow)[:first_units], second_units),
        _narrowed(of_second_bias, second_units),
        _narrowed(of_output, second_units).reshape(-1, 1),
        of_output_bias,
    ]


def _operands(other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """y and what x is multiplied with, of which one is empty."""
    flat = other.reshape(-1)
    return (flat, _NOTHING) if other.ndim == 4 else (_NOTHING, flat)


def _narrowed(values: np.ndarray, width: int) -> np.ndarray:
    return np.ascontiguousarray(values[..., :width])
