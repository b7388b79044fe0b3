"""From packed samples to framed tf.train.Example records, without a Python object per row.

Any TensorFlow program can read the records: each is an Example of packed int64 and float lists, one list per feature. A
prebatched record holds several samples, each feature flattened over them.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel
from components.native.words import SLACK, copy_bytes, store_u64
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
from components.records.packing import feature_size, find_samples, first_feature
from components.records.varint import varint_size, write_varint

_TAG = 1  # bytes of every tag used here
_LONGEST_LENGTH = 5  # bytes of a varint that holds a length


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
        packed: uint8, samples packed by packing.py, at positions [0, samples), followed by SLACK bytes.
        size: their bytes.
        samples: their number.
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
