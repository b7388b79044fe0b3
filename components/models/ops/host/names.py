"""The distinct rows that a batch names, and which names are equal."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from components.models.ops.host import host
from components.native import arrays
from components.native.compiled import kernel
from components.native.words import ones, trailing_zeros

_NAMES = 8192  # so many take about as long as calling a kernel for them
_BITS = np.uint64(64)  # of a word


def distinct(groups: Sequence[tf.Tensor], rows: int) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The rows that are named, ascending.

    Args:
        groups: of names, each ``[...]``, all int32 or all int64, from 0 to before ``rows``.

    Returns:
        The rows ``[R]``, in the type of the names, and for each group which of these its names are, int32 ``[...]``.
    """

    def run(*named: np.ndarray) -> list[np.ndarray]:
        _, found, places = numbered(named, rows)
        return [found, *places]

    kinds = [groups[0].dtype, *(tf.int32 for _ in groups)]
    found, *places = tf.numpy_function(run, list(groups), kinds, stateful=False, name="rows_distinct")
    found.set_shape([None])
    for place, group in zip(places, groups, strict=True):
        place.set_shape(group.shape)
    return found, places


def numbered(named: Sequence[np.ndarray], rows: int) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """See :func:`distinct`; and before these a bit for each row, set where it is named."""
    bits = np.zeros(-(-rows // int(_BITS)), np.uint64)
    below = np.empty(len(bits), np.int32)
    for names in named:
        _mark(names.reshape(-1), bits)
    found = arrays.empty([_count(bits, below)], named[0].dtype.type)
    _list(bits, found)
    places = [arrays.empty(names.shape, np.int32) for names in named]
    for names, numbers in zip(named, places, strict=True):
        flat = names.reshape(-1), bits, below, numbers.reshape(-1)
        host.in_parts(lambda part, first, last, flat=flat: _number(*flat, first, last), names.size, least=_NAMES)
    return bits, found, places


def grouped(places: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the places are equal.

    Args:
        places: int32 ``[N]``, from 0 to before ``count``.
        count: of different places.

    Returns:
        Where the numbers of each place begin in the second array, int32 ``[count + 1]``; and those numbers, ascending
        for each place, int32 ``[N]``.
    """
    if len(places) == count and in_order(places):
        return np.arange(count + 1, dtype=np.int32), places
    starts, members = np.zeros(count + 2, np.int32), np.empty(len(places), np.int32)
    _group(places, starts, members)
    return starts[:-1], members


@kernel
def in_order(places):  # type: ignore[no-untyped-def]
    """Whether the places are 0, 1, 2 and so on."""
    i = 0
    while i < len(places) and places[i] == i:
        i += 1
    return i == len(places)


@kernel
def _mark(named, bits):  # type: ignore[no-untyped-def]
    """Sets the bit of each row that is named."""
    # A bit a row fits into the second-level cache where a number a row does not.
    for i in range(len(named)):
        row = np.uint64(named[i])
        bits[row // _BITS] |= np.uint64(1) << row % _BITS


@kernel
def _count(bits, below):  # type: ignore[no-untyped-def]
    """How many bits are set; ``below`` gets how many before each word."""
    count = np.int32(0)
    for word in range(len(bits)):
        below[word] = count
        count += np.int32(ones(bits[word]))
    return count


@kernel
def _number(named, bits, below, places, first, last):  # type: ignore[no-untyped-def]
    """Writes which of the rows whose bit is set each name is, from ``first`` to before ``last``."""
    for i in range(first, last):
        row = np.uint64(named[i])
        lower = bits[row // _BITS] & ((np.uint64(1) << row % _BITS) - np.uint64(1))
        places[i] = below[row // _BITS] + np.int32(ones(lower))


@kernel
def _list(bits, found):  # type: ignore[no-untyped-def]
    """Writes down the rows whose bit is set."""
    at = 0
    for word in range(len(bits)):
        left = bits[word]
        while left:
            found[at] = word * np.int64(_BITS) + np.int64(trailing_zeros(left))
            left &= left - np.uint64(1)
            at += 1


@kernel
def _group(places, starts, members):  # type: ignore[no-untyped-def]
    """See :func:`grouped`; ``starts`` are zeros, and one more than it returns, to count in."""
    for place in places:
        starts[place + 2] += np.int32(1)
    for place in range(2, len(starts)):
        starts[place] += starts[place - 1]
    for i in range(len(places)):
        at = places[i] + 1
        members[starts[at]] = i
        starts[at] += np.int32(1)
