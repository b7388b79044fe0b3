"""Adam over a whole table from the rows that have a gradient, which may still be on their way.

Rows that no rank names only fade. Which ones these are is known long before the gradients of the others have come from
the other ranks, so they are moved while those are waited for.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from components.compiled import kernel
from components.models.kernels import host, rows
from components.models.kernels.vectors import LANES, everywhere, load, normal, square_root, stream
from components.records.words import trailing_zeros


class Rule(NamedTuple):
    """What stays the same from step to step: the share of each moment that is kept, and epsilon."""

    keep_first: float
    keep_second: float
    epsilon: float


def step(
    moments: Sequence[tf.Variable], gradient: tf.IndexedSlices, rate: tf.Tensor, rule: Rule, awaited: bool
) -> tf.Tensor:
    """Moves the moments of every row, and says how far the weights are to go; rows without a gradient have one of 0.

    A gradient of the whole table is never in memory. New moments are written beside the old ones, past the caches, and
    the variables take over that memory. A variable that has ever been looked up by row would copy it instead; the
    weights have, and are left to an operation that changes them where they stand.

    Args:
        moments: both, float32 ``[R, width]``, the width a multiple of the vectors'.
        gradient: of the table; a row may be named more than once.
        rate: of the step, a scalar.
        rule: of Adam.
        awaited: whether the gradient's indices are there before its values.

    Returns:
        What is to be subtracted from the weights, ``[R, width]``.
    """

    def fade(first: np.ndarray, second: np.ndarray, named: np.ndarray, size: np.ndarray) -> _Step:
        return _faded(first, second, named, np.float32(size), rule)

    def begin(*arrays: np.ndarray) -> np.ndarray:
        ticket = next(_tickets)
        _begun[ticket] = host.in_background(lambda: fade(*arrays))
        return np.array(ticket)

    def finish(ticket: np.ndarray, first: np.ndarray, second: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
        return _begun.pop(int(ticket)).result().moved(first, second, values)

    def run(
        first: np.ndarray, second: np.ndarray, named: np.ndarray, size: np.ndarray, values: np.ndarray
    ) -> list[np.ndarray]:
        return fade(first, second, named, size).moved(first, second, values)

    known = [*moments, gradient.indices, rate]
    shapes = [moments[0].shape] * 3
    if awaited:
        ticket = tf.numpy_function(begin, known, tf.int64, stateful=False, name="adam_begin")
        *new, way = host.call(finish, [ticket, *moments, gradient.values], shapes)
    else:
        *new, way = host.call(run, [*known, gradient.values], shapes)
    for moment, values in zip(moments, new, strict=True):
        moment.assign(values)
    return way


class _Step(NamedTuple):
    """A step half done: rows that nobody names have moved.

    Attributes:
        new: both moments and what is to be subtracted from the weights, each [R, width].
        found: the rows that are named, ascending.
        groups: of the names, by row (see :func:`components.models.kernels.rows.grouped`).
        factors: of the kernels.
    """

    new: list[np.ndarray]
    found: np.ndarray
    groups: tuple[np.ndarray, np.ndarray]
    factors: list[np.float32]

    def moved(self, first: np.ndarray, second: np.ndarray, values: np.ndarray) -> list[np.ndarray]:
        """Moves the rows that are named by the sums of their gradients."""
        width = values.shape[1]
        flat = [array.reshape(-1) for array in (first, second, *self.new)]
        arguments = *flat, self.found, *self.groups, values.reshape(-1), width
        host.in_parts(lambda part, begin, end: _move(*arguments, begin, end, *self.factors), len(self.found))
        return self.new


_tickets = itertools.count()
_begun: dict[int, Future[_Step]] = {}


def _faded(first: np.ndarray, second: np.ndarray, named: np.ndarray, rate: np.float32, rule: Rule) -> _Step:
    height, width = first.shape
    bits, found, places = rows.numbered(named, height)
    new = [host.floats(height, width) for _ in range(3)]
    factors = [*(np.float32(factor) for factor in rule), rate]
    flat = [array.reshape(-1) for array in (first, second, *new)]
    host.in_parts(lambda part, begin, end: _fade(*flat, bits, height, width, begin, end, *factors), len(bits))
    return _Step(new, found, rows.grouped(places, len(found)), factors)


@kernel
def _fade(  # type: ignore[no-untyped-def]
    first, second, new_first, new_second, way, bits, height, width, begin, end, keep_first, keep_second, epsilon, rate
):  # fmt: skip
    """Moves the rows of the words from ``begin`` to before ``end`` whose bit is not set; there are ``height`` rows."""
    kept_first, kept_second = everywhere(keep_first), everywhere(keep_second)
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
                stream(way, at, size * m / (square_root(v) + more))


@kernel
def _move(  # type: ignore[no-untyped-def]
    first, second, new_first, new_second, way, found, starts, members, values, width, begin, end,
    keep_first, keep_second, epsilon, rate,
):  # fmt: skip
    """Moves the rows from ``found[begin]`` to before ``found[end]`` by the sums of what ``values`` says about each."""
    kept_first, kept_second = everywhere(keep_first), everywhere(keep_second)
    one = np.float32(1.0)
    into_first, into_second = everywhere(one - keep_first), everywhere(one - keep_second)
    size, more = everywhere(rate), everywhere(epsilon)
    for number in range(begin, end):
        row = np.int64(found[number]) * width
        for j in range(0, width, LANES):
            g, at = load(values, np.int64(members[starts[number]]) * width + j), row + j
            for other in range(starts[number] + 1, starts[number + 1]):
                g = g + load(values, np.int64(members[other]) * width + j)
            m = normal(kept_first * load(first, at) + into_first * g)
            v = normal(kept_second * load(second, at) + into_second * (g * g))
            stream(new_first, at, m)
            stream(new_second, at, v)
            stream(way, at, size * m / (square_root(v) + more))
