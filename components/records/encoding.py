"""From columns to packed samples, and from these to framed tf.train.Example records, without a Python object per row.

Values are encoded once, as varints or floats, and then moved as bytes. A packed sample consists of its position
(uint32), the size of each feature in bytes (uint32 each), and the encoded values of each feature.

Any TensorFlow program can read the records: each is an Example of packed int64 and float lists, one list per feature. A
prebatched record holds several samples, each feature flattened over them.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel
from components.records.framing import FOOTER, HEADER, write_frame
from components.records.layout import (
    ENTRY_HEAD,
    FIRST,
    FLOAT_LIST,
    INT64_LIST,
    SECOND,
    Layout,
    head_words,
    is_short,
)
from components.records.words import (
    LOW_HALF,
    NOT_FINITE,
    SLACK,
    copy_bytes,
    load_u64,
    store_u64,
    varint_size,
    write_varint,
)

_LONGEST_VALUE = 5
_WORD = 4
_ZEROS = np.uint64(0)
_TAG = 1  # bytes of every tag used here
_LONGEST_LENGTH = 5  # bytes of a varint that holds a length


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


def records_room(layout: Layout, packed: int, samples: int, samples_per_record: int) -> int:
    """Upper bound of the bytes of ``samples`` samples as records; they take ``packed`` bytes packed."""
    around_record = HEADER + FOOTER + _TAG + _LONGEST_LENGTH
    around_feature = 6 * (_TAG + _LONGEST_LENGTH)
    around = around_record + int(layout.fields.key_ends[-1]) + len(layout.features) * around_feature
    return -(-samples // samples_per_record) * around + packed + SLACK


def encode_samples(
    layout: Layout, packed: np.ndarray, size: int, samples: int, samples_per_record: int, out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Encodes samples as records.

    Args:
        layout: the features, in packing order.
        packed: uint8, samples of ``pack_samples``, at positions [0, samples), followed by SLACK bytes.
        size: their bytes.
        samples_per_record: 1 for plain records; the last record holds the rest.
        out: uint8, with ``records_room``.

    Returns:
        The records in order of position, a view of ``out``, and their end offsets, int64 [records].
    """
    features = len(layout.features)
    starts = np.empty(samples, np.int64)
    find_samples(packed, size, features, starts)
    cursors = np.empty(samples_per_record, np.int64)
    payloads = np.empty(features, np.int64)
    ends = np.empty(-(-samples // samples_per_record), np.int64)
    _encode(packed, starts, samples_per_record, layout.fields, cursors, payloads, out, ends)
    return out[: ends[-1] if len(ends) else 0], ends


@kernel
def _encode(packed, starts, samples_per_record, fields, cursors, payloads, out, ends):  # type: ignore[no-untyped-def]
    keys, key_ends, heads, _, _, _, floats, _ = fields
    features = len(payloads)
    at = 0
    for record in range(len(ends)):
        first = record * samples_per_record
        samples = starts[first : min(first + samples_per_record, len(starts))]
        # Length prefixes precede the values, so sizes are summed first.
        payloads[:] = 0
        for i in range(len(samples)):
            cursors[i] = first_feature(samples[i], features)
            for feature in range(features):
                payloads[feature] += feature_size(packed, samples[i], feature)
        total = 0
        for feature in range(features):
            total += _wrapped(_entry_size(key_ends[feature + 1] - key_ends[feature], payloads[feature]))
        begin = at
        at = _begin(out, at + HEADER, FIRST, total)
        for feature in range(features):
            at = _write_head(out, at, keys, key_ends, heads, floats, feature, payloads[feature])
            for i in range(len(samples)):
                end = cursors[i] + feature_size(packed, samples[i], feature)
                at = copy_bytes(packed, cursors[i], end, out, at)
                cursors[i] = end
        at = write_frame(out, begin, at)
        ends[record] = at


@kernel
def _wrapped(size):  # type: ignore[no-untyped-def]
    """Bytes of a length-delimited field that holds ``size`` bytes."""
    return _TAG + varint_size(size) + size


@kernel
def _entry_size(key, payload):  # type: ignore[no-untyped-def]
    return _wrapped(key) + _wrapped(_wrapped(_wrapped(payload)))


@kernel
def _begin(out, at, tag, size):  # type: ignore[no-untyped-def]
    """Begins a length-delimited field."""
    out[at] = tag
    return write_varint(out, at + 1, size)


@kernel
def _write_head(out, at, keys, key_ends, heads, floats, feature, payload):  # type: ignore[no-untyped-def]
    """Writes an entry up to its packed values; may overwrite seven more bytes."""
    size = key_ends[feature + 1] - key_ends[feature]
    if is_short(size, payload):
        for word in range(head_words(size)):
            store_u64(out, at + 8 * word, heads[feature, word, 0] + np.uint64(payload) * heads[feature, word, 2])
        return at + size + ENTRY_HEAD
    wrapped = _wrapped(_wrapped(payload))
    at = _begin(out, at, FIRST, _wrapped(size) + _wrapped(wrapped))
    at = _begin(out, at, FIRST, size)
    at = copy_bytes(keys, key_ends[feature], key_ends[feature + 1], out, at)
    at = _begin(out, at, SECOND, wrapped)
    at = _begin(out, at, FLOAT_LIST if floats[feature] else INT64_LIST, _wrapped(payload))
    return _begin(out, at, FIRST, payload)
