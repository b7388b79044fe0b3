"""The hybrid encoding of parquet levels and dictionary indices: runs of one value, and groups of eight packed in bits.

https://parquet.apache.org/docs/file-format/data-pages/encodings/
Nothing is read outside of the given range of bytes, whatever these say. Each kernel returns BROKEN where they make no
sense.
"""

from __future__ import annotations

import numpy as np

from components.compiled import kernel
from components.records.words import load_u64, trailing_zeros

BROKEN = -1
_ONE, _SEVEN = np.uint64(1), np.uint64(7)


@kernel
def _header(data, at, end):  # type: ignore[no-untyped-def]
    """The head of a run and the place behind it; BROKEN for the place where there is none."""
    value = shift = 0
    while at < end and shift < 35:
        byte = np.int64(data[at])
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
        shift += 7
    return 0, BROKEN


@kernel
def _run(data, at, end, left, width):  # type: ignore[no-untyped-def]
    """The run of ``width``-bit values whose head is at ``data[at]``.

    Returns:
        Its values, at most ``left``, or BROKEN; whether they are packed, else they are one value repeated; where they
        begin; and the place behind it.
    """
    head, at = _header(data, at, end)
    if at < 0:
        return BROKEN, False, at, at
    packed = (head & 1) == 1
    size = min((head >> 1) * 8 if packed else head >> 1, left)
    size_bytes = (size * width + 7) >> 3 if packed else (width + 7) >> 3
    if size == 0 or size_bytes > end - at:
        return BROKEN, packed, at, at
    return size, packed, at, at + ((head >> 1) * width if packed else size_bytes)


@kernel
def _bits(data, at, end, first, width):  # type: ignore[no-untyped-def]
    """``width`` bits, at most 32, of ``data[at:end]``, from bit ``first`` on."""
    at += first >> 3
    word = np.uint64(0)
    if end - at >= 8:
        word = load_u64(data, at)
    else:
        for i in range(end - at):
            word |= np.uint64(data[at + i]) << np.uint64(8 * i)
    return (word >> (np.uint64(first) & _SEVEN)) & ((_ONE << np.uint64(width)) - _ONE)


@kernel
def find_starts(data, at, end, count, base, starts, rows):  # type: ignore[no-untyped-def]
    """Notes where lists begin: the zeros among ``count`` repetition levels of one bit.

    Args:
        data: uint8, the levels are ``data[at:end]``.
        at: see ``data``.
        end: see ``data``.
        count: number of levels.
        base: added to the number of a level.
        starts: int32, with room for ``count`` from ``rows`` on.
        rows: lists in ``starts``.

    Returns:
        Lists in ``starts`` now.
    """
    done = 0
    while done < count:
        size, packed, first, at = _run(data, at, end, count - done, 1)
        if size < 0:
            return BROKEN
        if packed:
            for i in range((size + 7) >> 3):
                zeros = ~np.uint64(data[first + i]) & ((_ONE << np.uint64(min(8, size - 8 * i))) - _ONE)
                while zeros:
                    starts[rows] = base + done + 8 * i + np.int64(trailing_zeros(zeros))
                    rows += 1
                    zeros &= zeros - _ONE
        elif data[first] == 0:
            for i in range(size):
                starts[rows] = base + done + i
                rows += 1
        done += size
    return rows


@kernel
def all_are(data, at, end, count, width, value):  # type: ignore[no-untyped-def]
    """Whether ``count`` levels of ``width`` bits, at most 8, all have this value; False also where they are broken."""
    done = 0
    while done < count:
        size, packed, first, at = _run(data, at, end, count - done, width)
        if size < 0:
            return False
        if packed:
            for i in range(size):
                if _bits(data, first, end, i * width, width) != value:
                    return False
        elif data[first] != value:
            return False
        done += size
    return True


@kernel
def look_up(data, at, end, count, width, dictionary, out):  # type: ignore[no-untyped-def]
    """Writes the entries of ``dictionary`` that ``count`` indices of ``width`` bits, at most 32, choose to ``out``.

    Returns:
        ``count``.
    """
    entries, mask = np.uint64(len(dictionary)), (_ONE << np.uint64(width)) - _ONE
    done = 0
    while done < count:
        size, packed, first, at = _run(data, at, end, count - done, width)
        if size < 0:
            return BROKEN
        if packed:
            whole = min(size, max(end - first - 8, 0) * 8 // max(width, 1))  # those in eight bytes before the end
            for i in range(whole):
                bit = i * width
                index = (load_u64(data, first + (bit >> 3)) >> (np.uint64(bit) & _SEVEN)) & mask
                if index >= entries:
                    return BROKEN
                out[np.uint64(done + i)] = dictionary[index]
            for i in range(whole, size):
                index = _bits(data, first, end, i * width, width)
                if index >= entries:
                    return BROKEN
                out[done + i] = dictionary[index]
        else:
            index = _bits(data, first, at, 0, width)
            if index >= entries:
                return BROKEN
            out[done : done + size] = dictionary[index]
        done += size
    return done
