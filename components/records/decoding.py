"""From framed tf.train.Example records to arrays, checking every value on the way.

Accepts any Example of int64 and float lists: features in any order, packed or not; unknown features are skipped. A
record holds one sample, or several with each feature flattened (prebatched). Lists shorter than the specification's
length are padded with 0 on the left. The flat output is grouped by feature: all samples of the first feature, then of
the second, and so on. It is an int32 array; float32 values are stored by their bits.
"""

from __future__ import annotations

import numpy as np

from components.native.compiled import kernel
from components.records.framing import FOOTER, HEADER, frame_size, masked_crc32c
from components.records.layout import (
    ENTRY_HEAD,
    FIRST,
    FLOAT_LIST,
    INT64_LIST,
    SECOND,
    head_words,
    is_short,
)
from components.records.words import (
    LOW_HALF,
    MALFORMED,
    NOT_FINITE,
    TOO_MANY,
    load_u64,
    read_packed,
    read_varint,
    saturated,
    short_varint,
)

# Kinds of defects of a record; problems.py turns them into messages.
FRAME, CHECKSUM, NOT_AN_EXAMPLE, MISSING, OTHER_TYPE, TOO_LONG, WRONG_COUNT, OUT_OF_RANGE, UNEQUAL = range(1, 10)

ABSENT = -1
_FRAME_BYTES = HEADER + FOOTER
_FIRST_BYTES, _SECOND_BYTES = np.uint64(FIRST), np.uint64(SECOND)
_FLOAT_LIST, _INT64_LIST = np.uint64(FLOAT_LIST), np.uint64(INT64_LIST)
_LISTS = (_FIRST_BYTES, _FLOAT_LIST, _INT64_LIST)
_FIRST_VARINT = np.uint64(1 << 3)
_FIRST_FIXED32 = np.uint64(1 << 3 | 5)
_LOW_BYTE = np.uint64(0xFF)


@kernel
def decode(data, offsets, samples, fields, out, starts, row, found, follows, problem):  # type: ignore[no-untyped-def]
    """Decodes the records of ``data`` to ``out``, the first sample to ``row``.

    Args:
        data: uint8, consecutive frames, followed by words.SLACK bytes.
        offsets: int64 [records + 1], frame offsets, ascending; the first is that of ``data[0]``.
        samples: int64 [records], samples in each record.
        fields: the ``Fields`` of the layout.
        out: int32, flat.
        starts: start offset of each feature in ``out``.
        row: sample index in ``out`` of the first record.
        found: int64 [features], overwritten.
        follows: int64 [features + 1], initially zeros; see ``example``.
        problem: int64 [5], filled where the result is False: kind, record, feature, value, count.

    Returns:
        Whether all records are valid.
    """
    keys, key_ends, heads, lengths, padded, limits, floats, partners = fields
    for record in range(len(samples)):
        problem[1] = record
        at = offsets[record] - offsets[0]
        size = offsets[record + 1] - offsets[record] - _FRAME_BYTES
        if frame_size(data, at) != size:
            problem[0] = FRAME
            return False
        at += HEADER
        stored = load_u64(data, at + size) & LOW_HALF
        if masked_crc32c(data, at, at + size) != stored:
            problem[0] = CHECKSUM
            return False
        found[:] = ABSENT
        kind = example(
            data, at, at + size, samples[record], keys, key_ends, heads, lengths, limits, floats,
            out, starts, row, found, follows, problem,
        )  # fmt: skip
        if kind == 0:
            kind = _complete(samples[record], lengths, padded, partners, out, starts, row, found, problem)
        if kind != 0:
            problem[0] = kind
            return False
        row += samples[record]
    return True


@kernel
def copy_samples(source, source_starts, begin, end, lengths, out, starts, row):  # type: ignore[no-untyped-def]
    """Copies decoded samples [begin, end) from one flat array to ``row`` of another.

    Args:
        source_starts, starts: start offset of each feature in ``source`` and ``out``.
    """
    for feature in range(len(lengths)):
        length = lengths[feature]
        first, to = source_starts[feature] + begin * length, starts[feature] + row * length
        for i in range((end - begin) * length):
            out[np.uint64(to + i)] = source[np.uint64(first + i)]


@kernel
def example(  # type: ignore[no-untyped-def]
    data, at, end, samples, keys, key_ends, heads, lengths, limits, floats, out, starts, row, found, follows, problem
):
    """Decodes Example { Features features = 1; }; ``found`` gets the number of values of each feature.

    ``follows`` is int64 [features + 1]: the successor of each feature in the last record, and its first feature.
    Records of one writer mostly share an order, so a name is compared once instead of searched.
    """
    last = len(lengths)
    while at < end:
        tag, first, at = _field(data, at, end)
        if at < 0:
            return NOT_AN_EXAMPLE
        if tag == _FIRST_BYTES:
            inner = first
            while inner < at:  # Features { map<string, Feature> feature = 1; }
                feature = follows[last]
                values, behind = _usual_values(data, inner, at, key_ends, heads, feature)
                if values >= 0:
                    to, room = starts[feature] + row * lengths[feature], samples * lengths[feature]
                    limit = np.uint64(limits[feature])
                    if room == 1 and _single_value(data, values, behind, out, to, limit, floats[feature]):
                        count, outside = 1, 0
                    elif floats[feature]:
                        count, outside = _packed_floats(data, values, behind, out, to, room)
                    else:
                        count, outside = read_packed(data, values, behind, out, to, room, limit)
                    if count >= 0 and outside == 0:
                        found[feature] = count
                        last, inner = feature, behind
                        continue
                tag, entry, inner = _field(data, inner, at)
                if inner < 0:
                    return NOT_AN_EXAMPLE
                if tag == _FIRST_BYTES:
                    kind, last = _entry(
                        data, entry, inner, samples, keys, key_ends, lengths, limits, floats,
                        out, starts, row, found, follows, last, problem,
                    )  # fmt: skip
                    if kind != 0:
                        return kind
    return 0


@kernel
def _entry(  # type: ignore[no-untyped-def]
    data, at, end, samples, keys, key_ends, lengths, limits, floats, out, starts, row, found, follows, last, problem
):
    """Entry { string key = 1; Feature value = 2; }; returns its defect, and the last feature up to here."""
    key = key_end = value = value_end = 0
    while at < end:
        tag, first, at = _field(data, at, end)
        if at < 0:
            return NOT_AN_EXAMPLE, last
        if tag == _FIRST_BYTES:
            key, key_end = first, at
        elif tag == _SECOND_BYTES:
            value, value_end = first, at
    feature = _named(data, key, key_end, keys, key_ends)
    if feature < 0:
        return 0, last
    follows[last] = feature
    problem[2] = feature
    to, room = starts[feature] + row * lengths[feature], samples * lengths[feature]
    count = 0
    while value < value_end:  # Feature { oneof kind { BytesList = 1; FloatList = 2; Int64List = 3; } }
        tag, first, value = _field(data, value, value_end)
        if value < 0:
            return NOT_AN_EXAMPLE, last
        is_list = tag == _LISTS[0] or tag == _LISTS[1] or tag == _LISTS[2]
        if is_list and tag != (_FLOAT_LIST if floats[feature] else _INT64_LIST):
            return OTHER_TYPE, last
        if is_list:
            if floats[feature]:
                read, outside = _float_list(data, first, value, out, to + count, room - count)
            else:
                limit = np.uint64(limits[feature])
                read, outside = _int64_list(data, first, value, out, to + count, room - count, limit)
            if read == MALFORMED:
                return NOT_AN_EXAMPLE, last
            if read == TOO_MANY:
                return (TOO_LONG if samples == 1 else WRONG_COUNT), last
            count += read
            if outside:
                return _out_of_range(out[to : to + count], limits[feature], outside, problem), last
    found[feature] = count
    return 0, feature


@kernel
def _int64_list(data, at, end, out, to, room, limit):  # type: ignore[no-untyped-def]
    """Int64List { repeated int64 value = 1 [packed = true]; }, packed or not; returns as read_packed does."""
    count = outside = 0
    while at < end:
        begin = at
        tag, first, at = _field(data, at, end)
        if at < 0:
            return MALFORMED, outside
        if tag == _FIRST_BYTES:
            read, beyond = read_packed(data, first, at, out, to + count, room - count, limit)
            if read < 0:
                return read, outside
            count += read
            outside += beyond
        elif tag == _FIRST_VARINT:
            if count == room:
                return TOO_MANY, outside
            single = read_varint(data, begin + 1)[0]
            out[to + count] = saturated(single)
            outside += single > limit
            count += 1
    return count, outside


@kernel
def _float_list(data, at, end, out, to, room):  # type: ignore[no-untyped-def]
    """FloatList { repeated float value = 1 [packed = true]; }, packed or not; non-finite values are out of range."""
    count = outside = 0
    while at < end:
        begin = at
        tag, first, at = _field(data, at, end)
        if at < 0:
            return MALFORMED, outside
        if tag == _FIRST_FIXED32:
            first = begin + 1
        elif tag != _FIRST_BYTES:
            continue
        read, beyond = _packed_floats(data, first, at, out, to + count, room - count)
        if read < 0:
            return read, outside
        count += read
        outside += beyond
    return count, outside


@kernel
def _packed_floats(data, at, end, out, to, room):  # type: ignore[no-untyped-def]
    """As read_packed, for the floats in ``data[at:end]``."""
    outside = 0
    if (end - at) % 4:
        return MALFORMED, outside
    if (end - at) // 4 > room:
        return TOO_MANY, outside
    for offset in range(at, end, 4):
        bits = load_u64(data, offset) & LOW_HALF
        outside += bits & NOT_FINITE == NOT_FINITE
        out[np.uint64(to)] = np.int32(np.uint32(bits))
        to += 1
    return (end - at) // 4, outside


@kernel
def _usual_values(data, at, end, key_ends, heads, feature):  # type: ignore[no-untyped-def]
    """Fast path: begin and end of the values in an entry that begins with this feature's head; else ABSENT."""
    name = key_ends[feature + 1] - key_ends[feature]
    begin = at + name + ENTRY_HEAD
    if begin > end:
        return ABSENT, ABSENT
    size = load_u64(data, begin - 1) & _LOW_BYTE
    behind = begin + np.int64(size)
    if behind > end or not is_short(name, behind - begin):
        return ABSENT, ABSENT
    differing = np.uint64(0)
    for word in range(head_words(name)):
        empty, mask, grows = heads[feature, word, 0], heads[feature, word, 1], heads[feature, word, 2]
        differing |= (load_u64(data, at + 8 * word) & mask) ^ (empty + size * grows)
    return (begin, behind) if differing == 0 else (ABSENT, ABSENT)


@kernel
def _single_value(data, at, end, out, to, limit, is_float):  # type: ignore[no-untyped-def]
    """Fast path: decodes one value to ``out[to]``; False if there are none or several, or it is out of range."""
    word = load_u64(data, at)
    if is_float:
        value = word & LOW_HALF
        good = end - at == 4 and value & NOT_FINITE != NOT_FINITE
    else:
        value, behind = short_varint(word, at)
        good = behind == end and value <= limit
    out[np.uint64(to)] = np.int32(np.uint32(value))
    return good


@kernel
def _out_of_range(values, limit, outside, problem):  # type: ignore[no-untyped-def]
    problem[4] = outside
    for value in values:
        if value < 0 or value > limit:
            problem[3] = value
            break
    return OUT_OF_RANGE


@kernel
def _field(data, at, end):  # type: ignore[no-untyped-def]
    """The field at ``data[at]``: its tag, the offset of its bytes, and its end (MALFORMED if beyond ``end``)."""
    tag, at = read_varint(data, at)
    if at < 0 or at >= end or tag < _FIRST_VARINT:  # There is no field 0.
        return tag, at, MALFORMED
    wire = tag & np.uint64(7)
    first = at
    if wire == 2:
        size, first = read_varint(data, at)
        if first < 0 or first > end or size > np.uint64(end - first):
            return tag, first, MALFORMED
        at = first + np.int64(size)
    elif wire == 0:
        at = read_varint(data, at)[1]
    elif wire == 1:
        at += 8
    elif wire == 5:
        at += 4
    else:
        return tag, first, MALFORMED
    if at > end:
        at = MALFORMED
    return tag, first, at


@kernel
def _named(data, at, end, keys, key_ends):  # type: ignore[no-untyped-def]
    """The index of the feature whose name is ``data[at:end]``, or -1."""
    for feature in range(len(key_ends) - 1):
        if _is_name(data, at, end, keys, key_ends, feature):
            return feature
    return -1


@kernel
def _is_name(data, at, end, keys, key_ends, feature):  # type: ignore[no-untyped-def]
    """Whether ``data[at:end]`` is the name of a feature."""
    begin = key_ends[feature]
    if key_ends[feature + 1] - begin != end - at:
        return False
    for i in range(0, end - at, 8):
        differing = load_u64(data, at + i) ^ load_u64(keys, begin + i)
        behind = 8 * (i + 8 - (end - at))
        if behind > 0:
            differing <<= np.uint64(behind)
        if differing:
            return False
    return True


@kernel
def _complete(samples, lengths, padded, partners, out, starts, row, found, problem):  # type: ignore[no-untyped-def]
    """Pads short lists and checks that no feature is missing, and that the lists of a history are equally long."""
    for feature in range(len(lengths)):
        count = found[feature]
        room = samples * lengths[feature]
        begin = starts[feature] + row * lengths[feature]
        problem[2] = feature
        problem[3] = count
        if count == ABSENT or (count == 0 and not padded[feature]):
            return MISSING
        if count != found[partners[feature]]:
            problem[4] = partners[feature]
            return WRONG_COUNT if samples != 1 else UNEQUAL
        if count < room:
            if samples != 1:
                return WRONG_COUNT
            for i in range(count - 1, -1, -1):
                out[begin + room - count + i] = out[begin + i]
            out[begin : begin + room - count] = 0
    return 0
