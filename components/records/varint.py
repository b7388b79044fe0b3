"""Protocol buffer varints, read and written a machine word at a time.

Sample values are int32; on the wire they are int64. Values out of range are saturated so that the range check detects
them: negative values read as -1, larger ones as LARGEST.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel
from components.native.words import (
    HAS_BIT_MOVES,
    deposit_u64,
    extract_u64,
    leading_zeros,
    load_u64,
    store_u64,
    trailing_zeros,
)

LARGEST = np.int32(2**31 - 1)
TOO_MANY = -1
MALFORMED = -2

_ONE, _TWO, _THREE, _FOUR, _SEVEN, _EIGHT = (np.uint64(n) for n in (1, 2, 3, 4, 7, 8))
_STOPS = np.uint64(0x8080808080808080)
_LOW_SEVENS = np.uint64(0x7F7F7F7F7F7F7F7F)
_EVERY_BYTE = np.uint64(0x007F007F007F007F)
_EVERY_PAIR = np.uint64(0x0000FFFF0000FFFF)
_EVERY_FOUR = np.uint64(0x00000000FFFFFFFF)
_LIMIT = np.uint64(2**31)


@kernel
def _join_by_shifts(word, mask):  # type: ignore[no-untyped-def]
    word = (word & mask) >> trailing_zeros(mask)
    word = (word & _EVERY_BYTE) | ((word >> _ONE) & (_EVERY_BYTE << _SEVEN))
    word = (word & _EVERY_PAIR) | ((word >> _TWO) & (_EVERY_PAIR << np.uint64(14)))
    return (word & _EVERY_FOUR) | ((word >> _FOUR) & (_EVERY_FOUR << np.uint64(28)))


@kernel
def _join_by_instruction(word, mask):  # type: ignore[no-untyped-def]
    return extract_u64(word, mask & _LOW_SEVENS)


# Joins the low seven bits of a word's adjacent bytes under a mask.
_join = _join_by_instruction if HAS_BIT_MOVES else _join_by_shifts


@kernel
def read_varint(data, at):  # type: ignore[no-untyped-def]
    """The unsigned 64-bit varint at ``data[at]`` and its end offset; MALFORMED for the end if it never ends."""
    word = load_u64(data, at)
    stops = ~word & _STOPS
    if stops != 0:
        size = np.int64(trailing_zeros(stops) >> _THREE) + 1
        return _join(word, stops ^ (stops - _ONE)), at + size
    value = _join(word, ~np.uint64(0))
    if data[at + 8] < 128:
        return value | np.uint64(data[at + 8]) << np.uint64(56), at + 9
    if data[at + 9] < 128:
        return value | np.uint64(data[at + 8] & 127) << np.uint64(56) | np.uint64(data[at + 9]) << np.uint64(
            63
        ), at + 10
    return value, MALFORMED


@kernel
def short_varint(word, at):  # type: ignore[no-untyped-def]
    """As read_varint, from the eight bytes at ``at``; MALFORMED for the end also if it does not end in them."""
    stops = ~word & _STOPS
    end = at + np.int64((trailing_zeros(stops) + _ONE) >> _THREE) if stops != 0 else MALFORMED
    return _join(word, stops ^ (stops - _ONE)), end


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
        behind = at + np.int64((trailing_zeros(later) + _ONE) >> _THREE)
        if later == 0 or behind > end:
            break
        up_to_one, up_to_two = stops ^ (stops - _ONE), later ^ (later - _ONE)
        one, two = _join(word, up_to_one), _join(word, up_to_two & ~up_to_one)
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
def _spread_by_shifts(value):  # type: ignore[no-untyped-def]
    word = (value & _EVERY_FOUR >> _FOUR) | (value << _FOUR & (_EVERY_FOUR << np.uint64(32)))
    word = (word & np.uint64(0x00003FFF00003FFF)) | (word << _TWO & np.uint64(0x3FFF00003FFF0000))
    return (word & _EVERY_BYTE) | (word << _ONE & (_EVERY_BYTE << np.uint64(8)))


@kernel
def _spread_by_instruction(value):  # type: ignore[no-untyped-def]
    return deposit_u64(value, _LOW_SEVENS)


_spread = _spread_by_instruction if HAS_BIT_MOVES else _spread_by_shifts


@kernel
def write_varint(out, at, value):  # type: ignore[no-untyped-def]
    """Writes a value from 0 to 2**31 - 1 to ``out[at:]``; returns its end. May overwrite seven more bytes.

    Writes the low 32 bits of any other value.
    """
    word = _spread(np.uint64(value) & _EVERY_FOUR)
    unused = leading_zeros(word | _ONE) & np.uint64(56)  # bits of the unused bytes
    store_u64(out, at, word | (_STOPS >> _EIGHT) >> unused)
    return at + np.int64(_EIGHT - (unused >> _THREE))
