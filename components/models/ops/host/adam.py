"""Adam over a whole table with a sparse gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from components.models.ops.host import host, names, rows
from components.models.ops.host.vectors import LANES, everywhere, load, normal, square_root, stream
from components.models.ops.rows import AdamStep
from components.native.compiled import kernel
from components.native.words import prefetch, trailing_zeros

_AHEAD = 8  # prefetch distance in rows: their order defeats the hardware prefetcher


class Factors(NamedTuple):
    """The constants of a training: 1 - weight decay, the moments' decay rates, and epsilon."""

    keep_weights: float
    keep_first: float
    keep_second: float
    epsilon: float


def adam(
    variable: tf.Variable, first: tf.Variable, second: tf.Variable, gradient: tf.Tensor | tf.IndexedSlices, by: AdamStep
) -> None:
    """See :func:`components.models.ops.rows.adam`.

    A dense gradient is never in memory. New values go to new buffers by non-temporal stores, and the variables take
    over the buffers.
    """
    if not isinstance(gradient, tf.IndexedSlices) or variable.shape.rank != 2 or by.scaling.allowed is not None:
        return NotImplemented
    if tf.is_tensor(by.keep_weights):  # follows a schedule
        return NotImplemented
    if not rows.supports(variable.shape[-1], gradient.values.dtype):
        return NotImplemented
    variables = variable, first, second
    factors = Factors(by.keep_weights, by.beta_1, by.beta_2, by.epsilon)
    rate = by.rate * tf.sqrt(1.0 - by.powers[1]) / (1.0 - by.powers[0])

    def run(*arrays: np.ndarray) -> list[np.ndarray]:
        *old, named, values, size = arrays
        return _step(old, named, values, np.float32(size), factors)

    given = [*(rows.whole(table) for table in variables), gradient.indices, by.scaling.true(gradient.values), rate]
    new = host.call(run, given, [table.shape for table in variables])
    for table, values in zip(variables, new, strict=True):
        table.assign(values)


def _step(
    old: Sequence[np.ndarray], named: np.ndarray, values: np.ndarray, rate: np.float32, by: Factors
) -> list[np.ndarray]:
    """The new weights and moments, each ``[R, width]``: rows without a gradient decay, the others use its sum."""
    height, width = old[0].shape
    bits, found, (places,) = names.numbered([named], height)
    new = [host.floats(height, width) for _ in old]
    factors = [*(np.float32(factor) for factor in by), rate]
    flat = [array.reshape(-1) for array in (*old, *new)]
    host.in_parts(lambda part, begin, end: _fade(*flat, bits, height, width, begin, end, *factors), len(bits))
    moved = *flat, found, *names.grouped(places, len(found)), values.reshape(-1), width
    host.in_parts(lambda part, begin, end: _move(*moved, begin, end, *factors), len(found))
    return new


@kernel
def _fade(  # type: ignore[no-untyped-def]
    weights, first, second, new_weights, new_first, new_second, bits, height, width, begin, end,
    keep_weights, keep_first, keep_second, epsilon, rate,
):  # fmt: skip
    """Updates the rows without a gradient: those with a clear bit in words ``[begin, end)``, below ``height``."""
    kept, kept_first, kept_second = everywhere(keep_weights), everywhere(keep_first), everywhere(keep_second)
    size, more = everywhere(rate), everywhere(epsilon)
    for word in range(begin, end):
        idle = ~bits[word]
        while idle:
            row = word * 64 + np.int64(trailing_zeros(idle))
            idle &= idle - np.uint64(1)
            if row >= height:
                break
            for at in range(row * width, (row + 1) * width, LANES):
                m, v = normal(kept_first * load(first, at)), normal(kept_second * load(second, at))
                stream(new_first, at, m)
                stream(new_second, at, v)
                stream(new_weights, at, kept * load(weights, at) - size * m / (square_root(v) + more))


@kernel
def _move(  # type: ignore[no-untyped-def]
    weights, first, second, new_weights, new_first, new_second, found, starts, members, values, width, begin, end,
    keep_weights, keep_first, keep_second, epsilon, rate,
):  # fmt: skip
    """Updates rows ``found[begin:end]`` by the sums of their gradients in ``values``."""
    kept, kept_first, kept_second = everywhere(keep_weights), everywhere(keep_first), everywhere(keep_second)
    one = np.float32(1.0)
    into_first, into_second = everywhere(one - keep_first), everywhere(one - keep_second)
    size, more = everywhere(rate), everywhere(epsilon)
    for number in range(begin, end):
        row = np.int64(found[number]) * width
        if number + _AHEAD < end:
            later = np.int64(found[number + _AHEAD]) * width
            prefetch(first, later)
            prefetch(second, later)
            prefetch(weights, later)
        for j in range(0, width, LANES):
            g, at = load(values, np.int64(members[starts[number]]) * width + j), row + j
            for other in range(starts[number] + 1, starts[number + 1]):
                g = g + load(values, np.int64(members[other]) * width + j)
            m = normal(kept_first * load(first, at) + into_first * g)
            v = normal(kept_second * load(second, at) + into_second * (g * g))
            stream(new_first, at, m)
            stream(new_second, at, v)
            stream(new_weights, at, kept * load(weights, at) - size * m / (square_root(v) + more))
