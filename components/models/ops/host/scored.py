"""The network that scores pairs as a TensorFlow operation that calls the kernels of pairs.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from components.models.ops.host import host, pairs
from components.models.ops.host.products import GRAIN, padded, widened


def score_pairs(
    x: tf.Tensor, y: tf.Tensor, share: tf.Tensor, of_x: tf.Tensor, of_y: tf.Tensor, *layers: tf.Tensor
) -> tf.Tensor:
    """See ``components.models.ops.pairs.score_pairs``."""
    if len(layers) != 4 or any(operand.dtype != tf.float32 or operand.shape[-1] % GRAIN for operand in (x, y)):
        return NotImplemented
    return _scores(x, y, share, of_x, of_y, *layers)


@tf.custom_gradient
def _scores(*args: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
    result, kept = host.call(_run_forward, args, [args[1].shape[:-1], tf.TensorShape([None])])

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        return host.call(_run_backward, [kept, upstream, *args], [argument.shape for argument in args])

    return result, gradient


class _Layers(NamedTuple):
    """The layers as ``score_pairs`` takes them."""

    share: np.ndarray
    of_x: np.ndarray
    of_y: np.ndarray
    second: np.ndarray
    second_bias: np.ndarray
    output: np.ndarray
    output_bias: np.ndarray

    def sizes(self, y: np.ndarray) -> pairs.Sizes:
        kinds, steps, samples, others = y.shape
        return steps, samples, len(self.of_x), others, kinds, self.of_x.shape[-1], self.second.shape[-1]


def _run_forward(x: np.ndarray, y: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    layers = _Layers(*weights)
    sizes = layers.sizes(y)
    wide, narrow = padded(sizes[-2]), padded(sizes[-1])
    result = host.floats(*y.shape[:-1])
    kept = host.floats(pairs.kept_size(sizes))
    operands = x.reshape(-1), y.reshape(-1), widened(layers.share, wide)
    panels = pairs.packed_forward(layers.of_x, layers.of_y, layers.second)
    output = np.append(widened(layers.output.reshape(-1), narrow), layers.output_bias)
    flat = *operands, panels, widened(layers.second_bias, narrow), output

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        pairs.forward(*flat, sizes, wide, narrow, first, last, room, kept, result.reshape(-1))

    host.in_parts(work, -(-x.shape[1] // pairs.TILE), pairs.forward_room(sizes))
    return [result, kept]


def _run_backward(
    kept: np.ndarray, upstream: np.ndarray, x: np.ndarray, y: np.ndarray, *weights: np.ndarray
) -> list[np.ndarray]:
    layers = _Layers(*weights)
    sizes = layers.sizes(y)
    steps, samples, inputs, others, _, first_units, second_units = sizes
    wide, narrow = padded(first_units), padded(second_units)
    own_share = layers.share.ndim == 2
    gradient_x, gradient_y = host.floats(*x.shape), host.floats(*y.shape)
    gradient_x[steps:] = 0.0
    gradient_shares = host.floats(samples if own_share else 0, wide)
    panels = pairs.packed_backward(layers.of_x, layers.of_y, layers.second)
    flat = x.reshape(-1), y.reshape(-1), own_share, panels, widened(layers.output.reshape(-1), narrow)
    of_operands = gradient_x.reshape(-1), gradient_y.reshape(-1), gradient_shares.reshape(-1)
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
        gradient_y,
        _narrowed(gradient_shares if own_share else of_share, first_units),
        _narrowed(of_wx.reshape(inputs, wide), first_units),
        _narrowed(of_wy.reshape(others, wide), first_units),
        _narrowed(of_second.reshape(wide, narrow)[:first_units], second_units),
        _narrowed(of_second_bias, second_units),
        _narrowed(of_output, second_units).reshape(-1, 1),
        of_output_bias,
    ]


def _narrowed(values: np.ndarray, width: int) -> np.ndarray:
    return np.ascontiguousarray(values[..., :width])
