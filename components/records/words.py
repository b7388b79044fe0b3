"""Machine words at any address of a byte array, and protocol buffer varints, read and written a word at a time.

No function checks bounds; the caller keeps SLACK bytes after the range it reads or writes.

Sample values are int32; on the wire they are int64. Values out of range are saturated so that the range check detects
them: negative values read as -1, larger ones as LARGEST.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel

SLACK = 16
LOW_HALF = np.uint64(0xFFFFFFFF)
NOT_FINITE = np.uint64(0x7F800000)
"""The exponent bits of an infinite or NaN float32."""
LARGEST = np.int32(2**31 - 1)
TOO_MANY = -1
MALFORMED = -2

_ONE, _TWO, _FOUR, _SEVEN, _EIGHT = (np.uint64(n) for n in (1, 2, 4, 7, 8))
_STOPS = np.uint64(0x8080808080808080)
_ONES = np.uint64(0x0101010101010101)
_EVERY_BYTE = np.uint64(0x007F007F007F007F)
_EVERY_PAIR = np.uint64(0x0000FFFF0000FFFF)
_EVERY_FOUR = np.uint64(0x00000000FFFFFFFF)
_LIMIT = np.uint64(2**31)


@kernel
def load_u64(data, at):  # type: ignore[no-untyped-def]
    """The eight bytes at ``data[at]`` as a little-endian word."""
    at, word = np.uint64(at), np.uint64(0)  # an index that cannot be negative lets LLVM make one instruction of this
    for i in range(8):
        word |= np.uint64(data[at + np.uint64(i)]) << np.uint64(8 * i)
    return word


@kernel
def store_u64(out, at, word):  # type: ignore[no-untyped-def]
    """Writes a little-endian word to the eight bytes at ``out[at]``."""
    at = np.uint64(at)
    for i in range(8):
        out[at + np.uint64(i)] = np.uint8(word >> np.uint64(8 * i))


@kernel
def copy_bytes(source, begin, end, out, at):  # type: ignore[no-untyped-def]
    """Copies ``source[begin:end]`` to ``out[at:]``; returns its end. May touch seven more bytes of both."""
    for i in range(0, end - begin, 8):
        store_u64(out, at + i, load_u64(source, begin + i))
    return at + end - begin


@kernel
def _join(word):  # type: ignore[no-untyped-def]
    """Joins the low seven bits of a word's bytes."""
    word = (word & _EVERY_BYTE) | ((word >> _ONE) & (_EVERY_BYTE << _SEVEN))
    word = (word & _EVERY_PAIR) | ((word >> _TWO) & (_EVERY_PAIR << np.uint64(14)))
    return (word & _EVERY_FOUR) | ((word >> _FOUR) & (_EVERY_FOUR << np.uint64(28)))


@kernel
def _bits(mask):  # type: ignore[no-untyped-def]
    """Number of ones in a mask of whole bytes, at least one of them."""
    return (mask & _ONES) * _ONES >> np.uint64(56) << np.uint64(3)


@kernel
def read_varint(data, at):  # type: ignore[no-untyped-def]
    """The unsigned 64-bit varint at ``data[at]`` and its end offset; MALFORMED for the end if it never ends."""
    word = load_u64(data, at)
    value, end = short_varint(word, at)
    if end != MALFORMED:
        return value, end
    value = _join(word)
    if data[at + 8] < 128:
        return value | np.uint64(data[at + 8]) << np.uint64(56), at + 9
    value |= np.uint64(data[at + 8] & 127) << np.uint64(56)
    if data[at + 9] < 128:
        return value | np.uint64(data[at + 9]) << np.uint64(63), at + 10
    return value, MALFORMED


@kernel
def short_varint(word, at):  # type: ignore[no-untyped-def]
    """As read_varint, from the eight bytes at ``at``; MALFORMED for the end also if it does not end in them."""
    stops = ~word & _STOPS
    mask = stops ^ (stops - _ONE)
    end = at + np.int64(_bits(mask) >> np.uint64(3)) if stops != 0 else MALFORMED
    return _join(word & mask), end


@kernel
def saturated(value):  # type: ignore[no-untyped-def]
    """A 64-bit value as int32."""
    if value < _LIMIT:
        return np.int32(value)
    return np.int32(-1) if value >> np.uint64(63) else LARGEST


@kernel
def read_packed(data, at, end, out, to, room, limit):  # type: ignore[no-untyped-def]
    """Decodes the varints of ``data[at:end]`` to ``out[to:]``.

    Returns:
        Their number, TOO_MANY above ``room``, or MALFORMED; and how many are outside [0, limit].
    """
    begin, first = at, to
    stop_at = to + room
    # Two at a time: the next load waits for one chain of bit operations instead of two. Range is checked at the end,
    # by the sign that any excess leaves.
    excess = np.uint64(0)
    while stop_at - to >= 2:
        word = load_u64(data, at)
        stops = ~word & _STOPS
        later = stops & (stops - _ONE)
        up_to_one, up_to_two = stops ^ (stops - _ONE), later ^ (later - _ONE)
        behind = at + np.int64(_bits(up_to_two) >> np.uint64(3))
        if later == 0 or behind > end:
            break
        one, two = _join(word & up_to_one), _join((word & up_to_two) >> _bits(up_to_one))
        excess |= (limit - one) | (limit - two)
        out[np.uint64(to)] = one
        out[np.uint64(to + 1)] = two
        to += 2
        at = behind
    if excess >> np.uint64(63):
        at, to = begin, first  # again, one at a time
    outside = 0
    while at < end:
        if to == stop_at:
            return TOO_MANY, outside
        value, at = read_varint(data, at)
        if at < 0 or at > end:
            return MALFORMED, outside
        outside += value > limit
        out[to] = saturated(value)
        to += 1
    return to - first, outside


@kernel
def varint_size(value):  # type: ignore[no-untyped-def]
    """Bytes of a value from 0 to 2**31 - 1 as a varint."""
    return 1 + (value >= 1 << 7) + (value >= 1 << 14) + (value >= 1 << 21) + (value >= 1 << 28)


@kernel
def _spread(value):  # type: ignore[no-untyped-def]
    """Spreads the low 35 bits of a word to the low seven bits of its bytes."""
    word = (value & _EVERY_FOUR >> _FOUR) | (value << _FOUR & (_EVERY_FOUR << np.uint64(32)))
    word = (word & np.uint64(0x00003FFF00003FFF)) | (word << _TWO & np.uint64(0x3FFF00003FFF0000))
    return (word & _EVERY_BYTE) | (word << _ONE & (_EVERY_BYTE << np.uint64(8)))


@kernel
def write_varint(out, at, value):  # type: ignore[no-untyped-def]
    """Writes a value from 0 to 2**31 - 1 to ``out[at:]``; returns its end. May overwrite seven more bytes.

    Writes the low 32 bits of any other value.
    """
    value = np.uint64(value) & _EVERY_FOUR
    size = varint_size(value)
    store_u64(out, at, _spread(value) | _STOPS >> np.uint64(72 - 8 * size) if size > 1 else value)
    return at + size
