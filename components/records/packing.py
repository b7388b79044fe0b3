"""Samples between parquet and records: values are encoded once, as varints or floats, and then moved as bytes.

A packed sample consists of its position (uint32), the size of each feature in bytes (uint32 each), and the varints of
each feature. Only the record's framing is missing.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel
from components.native.words import (
    LOW_HALF,
    NOT_FINITE,
    SLACK,
    copy_bytes,
    load_u64,
    store_u64,
)
from components.records.varint import write_varint

_LONGEST_VALUE = 5
_WORD = 4
_ZEROS = np.uint64(0)


def varints_room(values: int) -> int:
    """Upper bound of the bytes of this many varints."""
    return values * _LONGEST_VALUE + SLACK


def packed_room(samples: int, features: int, width: int) -> int:
    """Upper bound of the bytes of packed samples of ``width`` values."""
    return samples * (_WORD * (1 + features) + width * _LONGEST_VALUE) + SLACK


@kernel
def write_lists(values, offsets, limit, length, out, at, ends):  # type: ignore[no-untyped-def]
    """Writes the lists of one feature as varints, each padded with 0 on the left.

    Args:
        values: int32 or int64, all lists concatenated.
        offsets: int64 [n + 1], list offsets into ``values``.
        limit: largest allowed value; the smallest is 0.
        length: padded length.
        out: uint8, with room for ``varints_room`` of all padded lists from ``at`` on.
        at: start offset in ``out``.
        ends: int64 [n + 1], receives the list offsets into ``out``.

    Returns:
        Whether all values are allowed.
    """
    excess = np.int64(0)  # negative once a value is below 0 or above the limit
    ends[0] = at
    for i in range(len(offsets) - 1):
        begin, end = offsets[i], offsets[i + 1]
        padding = length - (end - begin)
        for j in range(0, padding, 8):
            store_u64(out, at + j, _ZEROS)
        at += padding
        for j in range(begin, end):
            value = np.int64(values[np.uint64(j)])
            excess |= value | (limit - value)
            at = write_varint(out, at, value)
        ends[i + 1] = at
    return excess >= 0


@kernel
def write_floats(values, offsets, length, out, at, ends):  # type: ignore[no-untyped-def]
    """Writes the lists of one feature as float32, each padded with 0 on the left; as ``write_lists``.

    Args:
        values: uint32, the bits of the floats of all lists.
        offsets, length, out, at, ends: see ``write_lists``.

    Returns:
        Whether all values are finite.
    """
    good = True
    ends[0] = at
    for i in range(len(offsets) - 1):
        for _ in range(length - (offsets[i + 1] - offsets[i])):
            store_u64(out, at, _ZEROS)
            at += _WORD
        for j in range(offsets[i], offsets[i + 1]):
            bits = np.uint64(values[np.uint64(j)])
            good &= bits & NOT_FINITE != NOT_FINITE
            store_u64(out, at, bits)
            at += _WORD
        ends[i + 1] = at
    return good


@kernel
def pack_samples(varints, ends, order, positions, out, at):  # type: ignore[no-untyped-def]
    """Joins the features of samples.

    Args:
        varints: uint8, the varints of all features.
        ends: int64 [features, at least samples + 1], list offsets into ``varints``.
        order: int64 [n], the samples to pack.
        positions: int64 [n], position of each sample, stored in front of it.
        out: uint8, with room for ``packed_room`` from ``at`` on.
        at: start offset in ``out``.

    Returns:
        The end offset of the packed samples.
    """
    for i in range(len(order)):
        sample = order[i]
        store_u64(out, at, np.uint64(positions[i]))
        at += _WORD
        for feature in range(len(ends)):
            store_u64(out, at, np.uint64(ends[feature, sample + 1] - ends[feature, sample]))
            at += _WORD
        for feature in range(len(ends)):
            at = copy_bytes(varints, ends[feature, sample], ends[feature, sample + 1], out, at)
    return at


@kernel
def find_samples(packed, size, features, starts):  # type: ignore[no-untyped-def]
    """Stores each position's byte offset in ``packed[:size]`` in ``starts``."""
    at = 0
    while at < size:
        starts[load_u64(packed, at) & LOW_HALF] = at
        behind = at + _WORD * (1 + features)
        for feature in range(features):
            behind += feature_size(packed, at, feature)
        at = behind


@kernel
def feature_size(packed, start, feature):  # type: ignore[no-untyped-def]
    """Bytes of a feature of the packed sample at ``start``."""
    return np.int64(load_u64(packed, start + _WORD * (1 + feature)) & LOW_HALF)


@kernel
def first_feature(start, features):  # type: ignore[no-untyped-def]
    """The offset of the varints of the packed sample at ``start``."""
    return start + _WORD * (1 + features)
