"""The distinct rows of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from components.models.ops.host import host
from components.native import arrays
from components.native.compiled import kernel

_NAMES = 8192  # smallest chunk: below this, call overhead dominates
_BITS = np.uint64(64)  # of a word


def unique_rows(groups: Sequence[tf.Tensor], rows: int) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """The distinct rows of several tensors, ascending, as of ``tf.unique``.

    Args:
        groups: row indices, each ``[...]``, all int32 or all int64, in ``[0, rows)``.

    Returns:
        The rows ``[R]``, in the dtype of the groups, and for each group its indices into these, int32 ``[...]``.
    """

    def run(*named: np.ndarray) -> list[np.ndarray]:
        bits = np.zeros(-(-rows // int(_BITS)), np.uint64)
        below = np.empty(len(bits), np.int32)
        for names in named:
            _mark(names.reshape(-1), bits)
        unique = arrays.empty([_count(bits, below)], named[0].dtype.type)
        _list(bits, unique)
        positions = [arrays.empty(names.shape, np.int32) for names in named]
        for names, numbers in zip(named, positions, strict=True):
            flat = names.reshape(-1), bits, below, numbers.reshape(-1)
            host.in_parts(lambda part, first, last, flat=flat: _number(*flat, first, last), names.size, least=_NAMES)
        return [unique, *positions]

    kinds = [groups[0].dtype, *(tf.int32 for _ in groups)]
    unique, *positions = tf.numpy_function(run, list(groups), kinds, stateful=False, name="rows_distinct")
    unique.set_shape([None])
    for position, group in zip(positions, groups, strict=True):
        position.set_shape(group.shape)
    return unique, positions


@kernel
def in_order(positions):  # type: ignore[no-untyped-def]
    """Whether the places are 0, 1, 2, ..."""
    i = 0
    while i < len(positions) and positions[i] == i:
        i += 1
    return i == len(positions)


@kernel
def _ones(word):  # type: ignore[no-untyped-def]
    """Number of one bits; LLVM makes one instruction of it."""
    word -= word >> np.uint64(1) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + (word >> np.uint64(2) & np.uint64(0x3333333333333333))
    word = word + (word >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return word * np.uint64(0x0101010101010101) >> np.uint64(56)


@kernel
def _mark(named, bits):  # type: ignore[no-untyped-def]
    """Sets the bit of each row that occurs."""
    # A bitmap fits into the L2 cache; an array of integers does not.
    for i in range(len(named)):
        row = np.uint64(named[i])
        bits[row // _BITS] |= np.uint64(1) << row % _BITS


@kernel
def _count(bits, below):  # type: ignore[no-untyped-def]
    """The number of set bits; ``below`` receives the number before each word."""
    count = np.int32(0)
    for word in range(len(bits)):
        below[word] = count
        count += np.int32(_ones(bits[word]))
    return count


@kernel
def _number(named, bits, below, positions, first, last):  # type: ignore[no-untyped-def]
    """Writes the rank of each row among the set bits, for ``named[first:last]``."""
    for i in range(first, last):
        row = np.uint64(named[i])
        lower = bits[row // _BITS] & ((np.uint64(1) << row % _BITS) - np.uint64(1))
        positions[i] = below[row // _BITS] + np.int32(_ones(lower))


@kernel
def _list(bits, unique):  # type: ignore[no-untyped-def]
    """Writes the rows with a set bit."""
    at = 0
    for word in range(len(bits)):
        left = bits[word]
        while left:
            unique[at] = word * np.int64(_BITS) + np.int64(_ones(~left & left - np.uint64(1)))
            left &= left - np.uint64(1)
            at += 1
