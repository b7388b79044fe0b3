"""Sums of a table's rows: where a batch names a row more than once, and as a gradient of the whole table."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from components.compiled import kernel
from components.models.kernels import host
from components.models.kernels.products import GRAIN
from components.models.kernels.vectors import LANES, load, store
from components.records.words import prefetch

# Rows lie anywhere in memory: so many ahead of its turn, one is asked for.
_AHEAD = 12


def fits(values: tf.Tensor) -> bool:
    """Whether the kernels may be called, and can add up rows such as ``values``, ``[N, width]``."""
    return (
        host.are_allowed() and values.dtype == tf.float32 and values.shape.rank == 2 and values.shape[-1] % GRAIN == 0
    )


def distinct(indices: tf.Tensor, rows: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The rows that are named, ascending.

    Args:
        indices: ``[N]``, int32 or int64, from 0 to before ``rows``.

    Returns:
        The rows ``[R]``, in the type of the indices, and which of these each index is, int32 ``[N]``.
    """

    def run(named: np.ndarray) -> list[np.ndarray]:
        numbers, places = np.empty(rows, np.int32), np.empty(len(named), np.int32)
        count = _number(named, numbers, places)
        found = np.empty(count, named.dtype)
        _list(numbers, found)
        return [found, places]

    found, places = tf.numpy_function(run, [indices], [indices.dtype, tf.int32], stateful=False)
    found.set_shape([None])
    places.set_shape(indices.shape)
    return found, places


def sums(values: tf.Tensor, places: tf.Tensor, count: tf.Tensor | int) -> tf.Tensor:
    """The sums of the values of equal place, ``[count, width]``.

    Args:
        values: float32 ``[N, width]``.
        places: int32 or int64 ``[N]``, from 0 to before ``count``.
        count: int32.
    """

    def run(values: np.ndarray, places: np.ndarray, count: np.ndarray) -> list[np.ndarray]:
        width = values.shape[1]
        out = host.floats(int(count), width)
        flat = out.reshape(-1)

        def clear(part: int, first: int, last: int) -> None:
            flat[first * width : last * width] = 0.0

        def add(part: int, first: int, last: int) -> None:
            for share in range(first, last):
                _add(values.reshape(-1), places, width, share, shares - 1, flat)

        shares = 1 << (host.threads().bit_length() - 1)  # a power of two, for a cheap remainder
        host.in_parts(clear, int(count))
        host.in_parts(add, shares)
        return [out]

    return host.call(run, [values, places, count], [tf.TensorShape([None, values.shape[1]])])[0]


@kernel
def _number(named, numbers, places):  # type: ignore[no-untyped-def]
    """Numbers the rows that are named in ascending order, -1 for others; their number."""
    numbers[:] = -1
    for i in range(len(named)):
        numbers[named[i]] = 0
    count = np.int32(0)
    for row in range(len(numbers)):
        if numbers[row] == 0:
            numbers[row] = count
            count += np.int32(1)
    for i in range(len(named)):
        places[i] = numbers[named[i]]
    return count


@kernel
def _list(numbers, found):  # type: ignore[no-untyped-def]
    """Writes down the rows that have a number."""
    at = 0
    for row in range(len(numbers)):
        if numbers[row] >= 0:
            found[at] = row
            at += 1


@kernel
def _add(values, places, width, share, mask, out):  # type: ignore[no-untyped-def]
    """Adds the rows of ``values`` to their places in ``out``, of which it takes those whose last bits are ``share``."""
    for i in range(len(places)):
        if i + _AHEAD < len(places):
            later = np.int64(places[i + _AHEAD])
            if later & mask == share:
                prefetch(out, later * width)
        place = np.int64(places[i])
        if place & mask == share:
            for j in range(0, width, LANES):
                at = place * width + j
                store(out, at, load(out, at) + load(values, i * width + j))
