"""From packed samples to framed tf.train.Example records, without a Python object per row.

Any TensorFlow program can read the records: each is an Example of packed int64 and float lists, one list per feature. A
prebatched record holds several samples, each feature flattened over them.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel
from components.native.words import SLACK, copy_bytes, store_u64
from components.records.decoding import Layout
from components.records.framing import FOOTER, HEADER, write_frame
from components.records.packing import feature_size, find_samples, first_feature
from components.records.varint import varint_size, write_varint

_TAG = 1  # bytes of every tag used here
_LONGEST_LENGTH = 5  # bytes of a varint that holds a length
_EXAMPLE_FEATURES = _FEATURES_ENTRY = _ENTRY_KEY = _PACKED_VALUES = 1 << 3 | 2
_ENTRY_VALUE = 2 << 3 | 2
_FLOAT_LIST, _INT64_LIST = 2 << 3 | 2, 3 << 3 | 2
_TWO_BYTES = 1 << 7  # the smallest length whose varint has two bytes


def records_room(layout: Layout, packed: int, samples: int, samples_per_record: int) -> int:
    """Upper bound of the bytes of ``samples`` samples as records; they take ``packed`` bytes packed."""
    around_record = HEADER + FOOTER + _TAG + _LONGEST_LENGTH
    around_feature = 6 * (_TAG + _LONGEST_LENGTH)
    around = around_record + int(layout.key_ends[-1]) + len(layout.features) * around_feature
    return -(-samples // samples_per_record) * around + packed + SLACK


def encode_samples(
    layout: Layout, packed: np.ndarray, size: int, samples: int, samples_per_record: int, out: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Encodes samples as records.

    Args:
        layout: the features, in packing order.
        packed: uint8, samples packed by packing.py, at positions [0, samples), followed by SLACK bytes.
        size: their bytes.
        samples: their number.
        samples_per_record: 1 for plain records; the last record holds the rest.
        out: uint8, with :func:`records_room`.

    Returns:
        The records in order of position, a view of ``out``, and their end offsets, int64 [records].
    """
    features = len(layout.features)
    starts = np.empty(samples, np.int64)
    find_samples(packed, size, features, starts)
    cursors = np.empty(samples_per_record, np.int64)
    payloads = np.empty(features, np.int64)
    ends = np.empty(-(-samples // samples_per_record), np.int64)
    lists = np.where(layout.floats, _FLOAT_LIST, _INT64_LIST).astype(np.uint8)
    _encode(packed, starts, samples_per_record, layout.keys, layout.key_ends, lists, cursors, payloads, out, ends)
    return out[: ends[-1] if len(ends) else 0], ends


@kernel
def _encode(packed, starts, samples_per_record, keys, key_ends, lists, cursors, payloads, out, ends):  # type: ignore[no-untyped-def]
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
        at = _begin(out, at + HEADER, _EXAMPLE_FEATURES, total)
        for feature in range(features):
            at = _write_wrapping(
                out, at, keys, key_ends[feature], key_ends[feature + 1], lists[feature], payloads[feature]
            )
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
    short = _short_entry_size(key, payload)
    if short < _TWO_BYTES:
        return short
    return _wrapped(key) + _wrapped(_wrapped(_wrapped(payload)))


@kernel
def _short_entry_size(key, payload):  # type: ignore[no-untyped-def]
    """Bytes of an entry with one-byte lengths of its key, value, list and packed values."""
    return key + payload + 4 * (_TAG + 1)


@kernel
def _begin(out, at, tag, size):  # type: ignore[no-untyped-def]
    """Begins a length-delimited field."""
    out[at] = tag
    return write_varint(out, at + 1, size)


@kernel
def _write_wrapping(out, at, keys, key, key_end, list_tag, payload):  # type: ignore[no-untyped-def]
    """Writes an entry up to its packed values."""
    short = _short_entry_size(key_end - key, payload)
    if short < _TWO_BYTES:
        # Fast path for tables, with tens of single values: two words hold the bytes around the key.
        front = _FEATURES_ENTRY | short << 8 | _ENTRY_KEY << 16 | (key_end - key) << 24
        store_u64(out, at, np.uint64(front))
        at = copy_bytes(keys, key, key_end, out, at + 4)
        behind = _ENTRY_VALUE | (payload + 4) << 8 | np.int64(list_tag) << 16 | (payload + 2) << 24
        store_u64(out, at, np.uint64(behind | _PACKED_VALUES << 32 | payload << 40))
        return at + 6
    values = _wrapped(payload)
    wrapped = _wrapped(values)
    at = _begin(out, at, _FEATURES_ENTRY, _wrapped(key_end - key) + _wrapped(wrapped))
    at = _begin(out, at, _ENTRY_KEY, key_end - key)
    at = copy_bytes(keys, key, key_end, out, at)
    at = _begin(out, at, _ENTRY_VALUE, wrapped)
    at = _begin(out, at, list_tag, values)
    return _begin(out, at, _PACKED_VALUES, payload)
