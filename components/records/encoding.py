"""From an int32 matrix of samples to framed tf.train.Example records, without a Python object a row.

Any TensorFlow program reads the records: each is an Example of packed int64 lists, one list a feature. A prebatched
record holds several samples, each feature flattened over them.
"""

from __future__ import annotations

import numpy as np

from components.records.compiled import kernel
from components.records.decoding import Layout
from components.records.framing import FOOTER, HEADER, write_frame
from components.records.varint import varint_size, write_varint
from components.records.words import SLACK, load_u64, store_u64

_TAG = 1  # bytes of every tag used here
_LONGEST_LENGTH = 5  # bytes of a varint that holds a length
_EXAMPLE_FEATURES = _FEATURES_ENTRY = _ENTRY_KEY = _PACKED_VALUES = 1 << 3 | 2
_ENTRY_VALUE = 2 << 3 | 2
_INT64_LIST = 3 << 3 | 2


def encode_samples(
    layout: Layout, rows: np.ndarray, order: np.ndarray, samples_per_record: int
) -> tuple[np.ndarray, np.ndarray]:
    """Encodes samples as records.

    Args:
        layout: the features, side by side in the columns of ``rows``.
        rows: int32 [samples, at least layout.width], values from 0 to the layout's limits.
        order: int64 [n], the rows to encode, in the order of the records.
        samples_per_record: 1 for plain records; the last record holds what is left.

    Returns:
        The bytes (uint8), and int64 [records] where each record ends in them.
    """
    records = -(-len(order) // samples_per_record)
    payload = int(np.dot([varint_size(limit) for limit in layout.limits.tolist()], layout.lengths))
    around_record = HEADER + FOOTER + _TAG + _LONGEST_LENGTH
    around_feature = 6 * (_TAG + _LONGEST_LENGTH)
    around = around_record + len(layout.keys) + len(layout.features) * around_feature
    out = np.empty(records * around + len(order) * payload + SLACK, np.uint8)
    scratch = np.empty(samples_per_record * payload + SLACK, np.uint8)
    payload_ends = np.zeros(len(layout.features) + 1, np.int64)
    ends = np.empty(records, np.int64)
    names = (layout.keys, layout.key_ends, layout.lengths)
    _encode(rows, order, samples_per_record, *names, scratch, payload_ends, out, ends)
    return out[: ends[-1]] if records else out[:0], ends


@kernel
def _encode(rows, order, samples_per_record, keys, key_ends, lengths, scratch, payload_ends, out, ends):  # type: ignore[no-untyped-def]
    at = 0
    for record in range(len(ends)):
        first = record * samples_per_record
        samples = order[first : min(first + samples_per_record, len(order))]
        # What wraps the values begins with their size in bytes, so these are written first, to the side.
        total = _pack(rows, samples, key_ends, lengths, scratch, payload_ends)
        begin = at
        at = _begin(out, at + HEADER, _EXAMPLE_FEATURES, total)
        for feature in range(len(lengths)):
            payload = payload_ends[feature + 1] - payload_ends[feature]
            at = _write_wrapping(out, at, keys[key_ends[feature] : key_ends[feature + 1]], payload)
            for i in range(0, payload, 8):
                store_u64(out, at + i, load_u64(scratch, payload_ends[feature] + i))
            at += payload
        at = write_frame(out, begin, at)
        ends[record] = at


@kernel
def _pack(rows, samples, key_ends, lengths, scratch, payload_ends):  # type: ignore[no-untyped-def]
    """Writes the values of each feature as varints; the bytes of all entries of the record."""
    at = column = total = 0
    for feature in range(len(lengths)):
        for sample in samples:
            for value in rows[sample, column : column + lengths[feature]]:
                at = write_varint(scratch, at, value)
        column += lengths[feature]
        payload_ends[feature + 1] = at
        total += _wrapped(_entry_size(key_ends[feature + 1] - key_ends[feature], at - payload_ends[feature]))
    return total


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
def _write_wrapping(out, at, key, payload):  # type: ignore[no-untyped-def]
    """Everything of an entry before its packed values."""
    at = _begin(out, at, _FEATURES_ENTRY, _entry_size(len(key), payload))
    at = _begin(out, at, _ENTRY_KEY, len(key))
    for i in range(len(key)):
        out[at + i] = key[i]
    at = _begin(out, at + len(key), _ENTRY_VALUE, _wrapped(_wrapped(payload)))
    at = _begin(out, at, _INT64_LIST, _wrapped(payload))
    return _begin(out, at, _PACKED_VALUES, payload)
