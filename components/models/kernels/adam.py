"""Adam over a whole table from the rows that have a gradient.

Rows that no rank names only fade. Which ones these are is known long before the gradients of the others, so they are
moved in what time the rest of a step leaves a core idle: while a kernel waits for another, or a rank for the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from components.compiled import kernel
from components.models.kernels import host, names, rows
from components.models.kernels.vectors import LANES, everywhere, load, normal, square_root, stream
from components.records.words import prefetch, trailing_zeros

_AHEAD = 8  # rows, of those that have a gradient: where they lie cannot be guessed


class Rule(NamedTuple):
    """What stays the same from step to step: the share of the weights and of each moment that is kept, and epsilon."""

    keep_weights: float
    keep_first: float
    keep_second: float
    epsilon: float


def step(variables: Sequence[tf.Variable], gradient: tf.IndexedSlices, rate: tf.Tensor, rule: Rule) -> None:
    """Moves every row; rows without a gradient have one of 0.

    A gradient of the whole table is never in memory. What is new is written beside the old, past the caches, and the
    variables take over that memory.

    Args:
        variables: weights and both moments, float32 ``[R, width]``, the width a multiple of the vectors'.
        gradient: of the weights; a row may be named more than once.
        rate: of the step, a scalar.
        rule: of Adam.
    """

    def begin(*arrays: np.ndarray) -> np.ndarray:
        *old, named, size = arrays
        ticket = next(_tickets)
        _begun[ticket] = host.in_idle_time(lambda: _begin(old, named, np.float32(size), rule))
        return np.array(ticket)

    def finish(ticket: np.ndarray, *arrays: np.ndarray) -> list[np.ndarray]:
        *old, values = arrays
        return _begun.pop(int(ticket)).result().finish(old, values)

    old = [rows.whole(variable) for variable in variables]
    ticket = tf.numpy_function(begin, [*old, gradient.indices, rate], tf.int64, stateful=False, name="adam_begin")
    new = host.call(finish, [ticket, *old, gradient.values], [variable.shape for variable in variables])
    for variable, values in zip(variables, new, strict=True):
        variable.assign(values)


class _Step(NamedTuple):
    """A step half done.

    Attributes:
        fading: moves the rows that nobody names.
        new: weights and both moments, each [R, width].
        found: the rows that are named, ascending.
        groups: of the names, by row (see :func:`components.models.kernels.names.grouped`).
        factors: of the kernels.
    """

    fading: host.Parts
    new: list[np.ndarray]
    found: np.ndarray
    groups: tuple[np.ndarray, np.ndarray]
    factors: list[np.float32]

    def finish(self, old: Sequence[np.ndarray], values: np.ndarray) -> list[np.ndarray]:
        """Moves what is left, and the rows that are named by the sums of their gradients."""
        self.fading.finish()
        width = values.shape[1]
        flat = [array.reshape(-1) for array in (*old, *self.new)]
        arguments = *flat, self.found, *self.groups, values.reshape(-1), width
        host.in_parts(lambda part, begin, end: _move(*arguments, begin, end, *self.factors), len(self.found))
        return self.new


_tickets = itertools.count()
_begun: dict[int, Future[_Step]] = {}


def _begin(old: Sequence[np.ndarray], named: np.ndarray, rate: np.float32, rule: Rule) -> _Step:
    height, width = old[0].shape
    bits, found, (places,) = names.numbered([named], height)
    new = [host.floats(height, width) for _ in old]
    factors = [*(np.float32(factor) for factor in rule), rate]
    flat = [array.reshape(-1) for array in (*old, *new)]
    fading = host.Parts(lambda part, begin, end: _fade(*flat, bits, height, width, begin, end, *factors), len(bits))
    fading.begin()
    return _Step(fading, new, found, names.grouped(places, len(found)), factors)


@kernel
def _fade(  # type: ignore[no-untyped-def]
    weights, first, second, new_weights, new_first, new_second, bits, height, width, begin, end,
    keep_weights, keep_first, keep_second, epsilon, rate,
):  # fmt: skip
    """Moves the rows of the words from ``begin`` to before ``end`` whose bit is not set; there are ``height`` rows."""
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
    """Moves the rows from ``found[begin]`` to before ``found[end]`` by the sums of what ``values`` says about each."""
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
