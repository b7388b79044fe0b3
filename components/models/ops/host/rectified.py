"""Dense layers with parametric rectifiers, tile by tile through all layers.

    z = x W + b,    x of the next layer = max(z, 0) + alpha * min(z, 0)

A linear output of one unit may follow. TILE samples go through all layers while weights and activations stay in the L2
cache. All arrays are float32 and contiguous. B samples; the inputs have I units, a multiple of GRAIN, and the layers
U1, U2, ..., padded to P1, P2, ..., such multiples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from components.models.ops.host import host
from components.models.ops.host.products import (
    GRAIN,
    TILE,
    add_transposed,
    multiply,
    packed,
    padded,
    widened,
)
from components.models.ops.host.vectors import LANES, everywhere, load, store, stream, total, where_at_least
from components.native.compiled import kernel

_ZERO = np.float32(0)
_LEAST = np.finfo(np.float32).tiny  # smallest positive value: TensorFlow's threads flush denormals to 0


def rectified_layers(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
    """See :func:`components.models.ops.dense.rectified_layers`."""
    if len(weights) < 3 or x.dtype != tf.float32 or x.shape.rank != 2 or x.shape[-1] % GRAIN:
        return NotImplemented
    return _layers(x, *weights)


@tf.custom_gradient
def _layers(*given: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
    shape = given[0].shape[:1] + given[-1].shape
    result, kept = host.call(_run_forward, given, [shape, tf.TensorShape([None])])

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        return host.call(_run_backward, [kept, upstream, *given], [argument.shape for argument in given])

    return result, gradient


class _Layers:
    """The layers as :func:`rectified_layers` takes them.

    Attributes:
        units: I, U1, U2, ...
        wide: the same, padded.
        matrices: W of each layer.
        vectors: b and alpha of each layer and the output's W, padded; and the output's b.
        has_output: whether there is an output layer.
        shapes: padded shapes of all weights.
    """

    def __init__(self, x: np.ndarray, weights: Sequence[np.ndarray]) -> None:
        hidden, output = weights[: len(weights) // 3 * 3], weights[len(weights) // 3 * 3 :]
        self.has_output = len(output) > 0
        self.matrices = hidden[::3]
        self.units = np.array([x.shape[1], *(matrix.shape[1] for matrix in self.matrices)], np.int64)
        self.wide = [padded(units) for units in self.units]
        vectors = [widened(vector, padded(len(vector))) for vector in hidden if vector.ndim == 1]
        self.shapes = [shape for above in itertools.pairwise(self.wide) for shape in (above, above[1:], above[1:])]
        if output:
            vectors += [widened(output[0].reshape(-1), self.wide[-1]), output[1]]
            self.shapes += [(self.wide[-1], 1), (1,)]
        self.vectors = np.concatenate(vectors)
        self._weights = weights

    @property
    def sizes(self) -> list[int]:
        """Padded sizes of all weights, in floats."""
        return [math.prod(shape) for shape in self.shapes]

    def gradients(self, sums: np.ndarray) -> list[np.ndarray]:
        """The weights' gradients, from the kernel's padded sums."""
        filled = np.split(sums, np.cumsum(self.sizes)[:-1])
        return [
            np.ascontiguousarray(values.reshape(shape)[tuple(slice(length) for length in weight.shape)])
            for values, shape, weight in zip(filled, self.shapes, self._weights, strict=True)
        ]


def _run_forward(x: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    samples, own = len(x), _Layers(x, weights)
    tiles = -(-samples // TILE)
    kept = host.floats(tiles * TILE * _kept(own.units))
    result = host.floats(samples, 1 if own.has_output else own.wide[-1])
    flat = x.reshape(-1), packed(*own.matrices), own.vectors, own.units, own.has_output, samples

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        _forward(*flat, first, last, room, kept, result.reshape(-1))

    host.in_parts(work, tiles, 2 * TILE * max(own.wide))
    return [np.ascontiguousarray(result[:, : weights[-1].size]), kept]


def _run_backward(kept: np.ndarray, upstream: np.ndarray, x: np.ndarray, *weights: np.ndarray) -> list[np.ndarray]:
    samples, own = len(x), _Layers(x, weights)
    tiles = -(-samples // TILE)
    of_x, parts = host.floats(*x.shape), host.floats(host.parts(tiles), sum(own.sizes))
    panels = packed(*(matrix.T for matrix in own.matrices))
    flat = x.reshape(-1), panels, own.vectors, own.units, own.has_output, samples
    of_result = upstream.reshape(-1) if own.has_output else widened(upstream, own.wide[-1])

    def work(part: int, first: int, last: int, room: np.ndarray) -> None:
        parts[part].fill(0)
        _backward(*flat, first, last, kept, of_result, room, of_x.reshape(-1), parts[part])

    host.in_parts(work, tiles, 3 * TILE * max(own.wide))
    return [of_x, *own.gradients(host.summed(parts))]


@kernel
def _kept(units):  # type: ignore[no-untyped-def]
    """Floats saved per sample for the backward pass: z of all layers."""
    count = 0
    for layer in range(1, len(units)):
        count += padded(units[layer])
    return count


@kernel
def _widest(units):  # type: ignore[no-untyped-def]
    """The largest padded layer width."""
    most = 0
    for layer in range(len(units)):
        most = max(most, padded(units[layer]))
    return most


@kernel
def _rectified(z, alpha):  # type: ignore[no-untyped-def]
    below = everywhere(_ZERO) - z
    return where_at_least(z, z, _ZERO) - alpha * where_at_least(below, below, _ZERO)


@kernel
def _forward(x, weights, vectors, units, output, samples, first, last, room, kept, result):  # type: ignore[no-untyped-def]
    """The forward pass of tiles ``[first, last)``.

    Args:
        x: [B, I].
        weights: of all layers in panels.
        vectors: b and alpha of each layer and the output's W, padded; and the output's b.
        units: I, U1, U2, ...
        output: whether there is an output layer.
        samples: B.
        room: scratch for two layers of a tile.
        kept: output, z of all layers by tile.
        result: output, [B, P] of the last layer, or [B] of the output layer.
    """
    for tile in range(first, last):
        begin = tile * TILE
        rows = min(TILE, samples - begin)
        below, above = 0, TILE * _widest(units)
        to_weights, to_vectors = 0, 0
        to_kept = begin * _kept(units)
        width = units[0]
        for i in range(0, rows * width, LANES):
            store(room, below + i, load(x, begin * width + i))
        for layer in range(1, len(units)):
            depth, reads, width = units[layer - 1], width, padded(units[layer])
            multiply(False, room, below, reads, depth, weights, to_weights, depth, width, room, above, width)
            for row in range(rows):
                for j in range(0, width, LANES):
                    at = row * width + j
                    z = load(room, above + at) + load(vectors, to_vectors + j)
                    stream(kept, to_kept + at, z)
                    store(room, above + at, _rectified(z, load(vectors, to_vectors + width + j)))
            to_weights += depth * width
            to_vectors += 2 * width
            to_kept += TILE * width
            below, above = above, below
        if output:
            for row in range(rows):
                score = everywhere(_ZERO)
                for j in range(0, width, LANES):
                    score = score + load(room, below + row * width + j) * load(vectors, to_vectors + j)
                result[begin + row] = total(score) + vectors[to_vectors + width]
        else:
            for i in range(0, rows * width, LANES):
                stream(result, begin * width + i, load(room, below + i))


@kernel
def _backward(  # type: ignore[no-untyped-def]
    x, weights, vectors, units, output, samples, first, last, kept, upstream, room, of_x, sums
):  # fmt: skip
    """The backward pass of :func:`_forward`, for the same tiles.

    Args:
        x, vectors, units, output, samples, kept: of :func:`_forward`.
        weights: the transposes in panels.
        upstream: the result's gradient, [B, P], or [B] of the output layer.
        room: scratch for three layers of a tile.
        of_x: output, [B, I].
        sums: accumulated, the gradients of W, b and alpha of each layer and of the output's W, padded, and of its b.
    """
    across = TILE * _widest(units)
    inputs = 2 * across
    for tile in range(first, last):
        begin = tile * TILE
        rows = min(TILE, samples - begin)
        own, below = 0, across
        width = padded(units[len(units) - 1])
        to_weights, to_vectors, to_sums = len(weights), len(vectors), len(sums)
        to_kept = (begin + TILE) * _kept(units)
        if output:
            to_vectors -= width + 1
            to_sums -= width + 1
            for row in range(rows):
                of_score = everywhere(upstream[begin + row])
                sums[to_sums + width] += upstream[begin + row]
                for j in range(0, width, LANES):
                    at = row * width + j
                    value = _rectified(load(kept, to_kept - TILE * width + at), load(vectors, to_vectors - width + j))
                    store(room, own + at, of_score * load(vectors, to_vectors + j))
                    store(sums, to_sums + j, load(sums, to_sums + j) + of_score * value)
        else:
            for i in range(0, rows * width, LANES):
                store(room, own + i, load(upstream, begin * width + i))
        for layer in range(len(units) - 1, 0, -1):
            # The gradient of z, from that of the activation.
            reads = padded(units[layer - 1])
            to_vectors -= 2 * width
            to_kept -= TILE * width
            to_sums -= (reads + 2) * width
            of_bias = to_sums + reads * width
            for row in range(rows):
                for j in range(0, width, LANES):
                    at = row * width + j
                    z, value = load(kept, to_kept + at), load(room, own + at)
                    negative = everywhere(_ZERO) - z
                    slope = load(vectors, to_vectors + width + j)
                    of_z = where_at_least(value, z, _LEAST) + where_at_least(slope * value, negative, _LEAST)
                    of_slope = where_at_least(value * z, negative, _LEAST)
                    store(room, own + at, of_z)
                    store(sums, of_bias + j, load(sums, of_bias + j) + of_z)
                    store(sums, of_bias + width + j, load(sums, of_bias + width + j) + of_slope)
            if layer > 1:
                source = to_kept - TILE * reads
                for row in range(rows):
                    for j in range(0, reads, LANES):
                        slope = load(vectors, to_vectors - reads + j)
                        value = _rectified(load(kept, source + row * reads + j), slope)
                        store(room, inputs + row * reads + j, value)
                add_transposed(room, inputs, reads, reads, rows, room, own, width, width, sums, to_sums, width)
            else:
                add_transposed(x, begin * reads, reads, reads, rows, room, own, width, width, sums, to_sums, width)
            depth = units[layer]
            to_weights -= depth * reads
            multiply(False, room, own, width, depth, weights, to_weights, depth, reads, room, below, reads)
            own, below, width = below, own, reads
        for i in range(0, rows * width, LANES):
            stream(of_x, begin * width + i, load(room, own + i))
