"""The hybrid encoding of parquet levels and dictionary indices: runs of one value, and groups of eight packed in bits.

https://parquet.apache.org/docs/file-format/data-pages/encodings/
Nothing is read outside of the given range of bytes, whatever these say. Each kernel returns BROKEN where they make no
sense.
"""

from __future__ import annotations

import numpy as np

from components.records.compiled import kernel
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
        head, at = _header(data, at, end)
        if at < 0:
            return BROKEN
        size = min((head >> 1) * 8 if head & 1 else head >> 1, count - done)
        size_bytes = (size + 7) >> 3 if head & 1 else 1
        if size == 0 or size_bytes > end - at:
            return BROKEN
        if head & 1:
            for i in range(size_bytes):
                zeros = ~np.uint64(data[at + i]) & ((_ONE << np.uint64(min(8, size - 8 * i))) - _ONE)
                while zeros:
                    starts[rows] = base + done + 8 * i + np.int64(trailing_zeros(zeros))
                    rows += 1
                    zeros &= zeros - _ONE
            at += head >> 1
        else:
            if data[at] == 0:
                for i in range(size):
                    starts[rows] = base + done + i
                    rows += 1
            at += 1
        done += size
    return rows


@kernel
def all_are(data, at, end, count, width, value):  # type: ignore[no-untyped-def]
    """Whether ``count`` levels of ``width`` bits, at most 8, all have this value; False also where they are broken."""
    done = 0
    while done < count:
        head, at = _header(data, at, end)
        if at < 0:
            return False
        size = min((head >> 1) * 8 if head & 1 else head >> 1, count - done)
        size_bytes = (size * width + 7) >> 3 if head & 1 else 1
        if size == 0 or size_bytes > end - at:
            return False
        if head & 1:
            for i in range(size):
                if _bits(data, at, end, i * width, width) != value:
                    return False
            at += (head >> 1) * width
        else:
            if data[at] != value:
                return False
            at += 1
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
        head, at = _header(data, at, end)
        if at < 0:
            return BROKEN
        size = min((head >> 1) * 8 if head & 1 else head >> 1, count - done)
        size_bytes = (size * width + 7) >> 3 if head & 1 else (width + 7) >> 3
        if size == 0 or size_bytes > end - at:
            return BROKEN
        if head & 1:
            whole = min(size, max(end - at - 8, 0) * 8 // max(width, 1))  # those that lie in eight bytes before the end
            for i in range(whole):
                bit = i * width
                index = (load_u64(data, at + (bit >> 3)) >> (np.uint64(bit) & _SEVEN)) & mask
                if index >= entries:
                    return BROKEN
                out[np.uint64(done + i)] = dictionary[index]
            for i in range(whole, size):
                index = _bits(data, at, end, i * width, width)
                if index >= entries:
                    return BROKEN
                out[done + i] = dictionary[index]
            at += (head >> 1) * width
        else:
            index = _bits(data, at, at + size_bytes, 0, width)
            if index >= entries:
                return BROKEN
            out[done : done + size] = dictionary[index]
            at += size_bytes
        done += size
    return done
