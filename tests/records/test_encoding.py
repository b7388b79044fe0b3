"""Bytes that the protocol buffer library and google_crc32c agree with."""

from __future__ import annotations

import google_crc32c
import numpy as np
import pytest

from components.feature_spec import Channel, Feature, FeatureSpec
from components.native.compiled import kernel
from components.records import words
from components.records.encoding import (
    encode_samples,
    pack_samples,
    packed_room,
    records_room,
    varints_room,
    write_lists,
)
from components.records.framing import crc32c
from components.records.layout import Layout, layout_of
from components.records.words import MALFORMED, SLACK, TOO_MANY, read_packed, varint_size, write_varint

EDGES = [0, 1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**31 - 2]


def layout() -> Layout:
    features = {"label": Feature("label", "bool"), "größe": Feature("größe", "int64", 2**31 - 2, 11)}
    return layout_of(FeatureSpec(features, {}, {Channel.LABEL: ("label",)}), list(features))


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 3071, 3072, 4099, 6144, 100_003])
def test_crc32c_is_that_of_the_library(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 3, dtype=np.uint8)
    assert int(crc32c(data, 3, size + 3)) == google_crc32c.value(data[3:].tobytes())


def pack(rows: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, int]:
    """Samples of the layout, packed so that their records come in this order, and their bytes."""
    samples, width = rows.shape
    varints, ends = np.empty(varints_room(rows.size), np.uint8), np.empty((2, samples + 1), np.int64)
    at = 0
    for feature, values in enumerate((rows[:, :1], rows[:, 1:])):
        offsets = np.arange(samples + 1) * values.shape[1]
        assert write_lists(values.ravel(), offsets, 2**31 - 2, values.shape[1], varints, at, ends[feature])
        at = ends[feature, -1]
    out = np.zeros(packed_room(samples, 2, width), np.uint8)
    return out, pack_samples(varints, ends, order, np.arange(samples), out, 0)


def lists_as_varints(
    values: np.ndarray, offsets: np.ndarray, limit: int, length: int
) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether all values are allowed, the bytes, and where each list ends."""
    lists = len(offsets) - 1
    out, ends = np.full(varints_room(lists * length) + 100, 0xAA, np.uint8), np.zeros(lists + 1, np.int64)
    allowed = write_lists(values, offsets, limit, length, out, 0, ends)
    assert (out[varints_room(lists * length) :] == 0xAA).all()
    return allowed, out[: ends[-1]], ends


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_many_varints_at_a_time_are_those_one_at_a_time(kind: type) -> None:
    random = np.random.default_rng(3)
    for longest in (1, 5, 16, 17, 100):
        offsets = np.append(0, np.cumsum(random.integers(0, longest + 1, 37)))
        values = (2.0 ** random.uniform(-1, 27.99, offsets[-1])).astype(kind)
        # A limit of 2**28 and more takes them one at a time.
        many, one = (lists_as_varints(values, offsets, limit, longest) for limit in (2**28 - 1, 2**31 - 2))
        assert many[0] and one[0]
        np.testing.assert_array_equal(many[1], one[1])
        np.testing.assert_array_equal(many[2], one[2])


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("wrong", [-1, 1001, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("place", [0, 15, 16, 19, 39])
def test_a_value_that_is_not_allowed_is_seen_wherever_it_stands(place: int, wrong: int, kind: type) -> None:
    values: np.ndarray = np.full(40, 1000, kind)
    offsets = np.arange(3) * 20
    assert lists_as_varints(values, offsets, 1000, 20)[0]
    values[place] = wrong
    assert not lists_as_varints(values, offsets, 1000, 20)[0]


def test_an_excess_beyond_32_bits_is_seen() -> None:
    values = np.array([1, 2**32 + 1, 2**62], np.int64)
    assert not lists_as_varints(values, np.array([0, 3]), 1000, 3)[0]


@kernel
def write(values, out):
    at = 0
    for value in values:
        at = write_varint(out, at, value)
    return at


def test_a_value_is_spread_to_sevens_of_bits() -> None:
    values = np.array([*EDGES, 0x55555555, 2**32 - 1], np.uint64)
    spread = [int(words._spread(value)) for value in values]
    assert spread == [sum((value >> 7 * i & 127) << 8 * i for i in range(5)) for value in values.tolist()]


def test_the_sevens_of_bits_are_joined() -> None:
    word = 0x8182FF0407A5F609
    assert int(words._join(np.uint64(word))) == sum((word >> 8 * i & 127) << 7 * i for i in range(8))


@pytest.mark.parametrize("padding", [0, 1, 7, 60, 99])
@pytest.mark.parametrize("largest", [2**7, 2**14, 2**21, 2**31])
def test_padded_lists_survive_the_round_trip(padding: int, largest: int) -> None:
    for length in (1, 2, 3, 99, 100):
        values = np.random.default_rng(length).integers(largest // 2, largest, length).astype(np.int32)
        values[: min(padding, length)] = 0
        packed = np.full(5 * length + SLACK, 0x80, np.uint8)
        size = write(values, packed)
        out = np.full(length + 2, -7, np.int32)
        assert read_packed(packed, 0, size, out, 1, length, np.uint64(2**31 - 1)) == (length, 0)
        np.testing.assert_array_equal(out, [-7, *values, -7])
        assert read_packed(packed, 0, size, out, 1, length - 1, np.uint64(2**31 - 1))[0] == TOO_MANY
        # Cut off within the last varint: never read as complete.
        if values[-1] > 127:
            assert read_packed(packed, 0, size - 1, out, 1, length, np.uint64(2**31 - 1))[0] == MALFORMED


@pytest.mark.parametrize("seed", range(5))
def test_varints_of_every_size_survive_the_round_trip(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.permutation(np.concatenate([EDGES, 2 ** (31 * rng.random(999)) - 1])).astype(np.int32)
    packed = np.zeros(5 * len(values) + SLACK, np.uint8)
    size = write(values, packed)
    assert size == sum(varint_size(value) for value in values.tolist())
    out = np.empty(len(values), np.int32)
    assert read_packed(packed, 0, size, out, 0, len(out), np.uint64(2**31 - 1)) == (len(values), 0)
    np.testing.assert_array_equal(out, values)


def read_one_by_one(data: bytes, room: int, limit: int) -> tuple[int, list[int], int]:
    """What read_packed returns, with the values in between, as plainly as can be."""
    values: list[int] = []
    at = 0
    while at < len(data):
        if len(values) == room:
            return TOO_MANY, values, 0
        size = next((n for n, byte in enumerate(data[at:], 1) if byte < 128), 0)
        if not 0 < size <= 10:
            return MALFORMED, values, 0
        value = sum((byte & 127) << 7 * i for i, byte in enumerate(data[at : at + size])) % 2**64
        values.append(-1 if value >> 63 else min(value, 2**31 - 1))
        at += size
    return len(values), values, sum(not 0 <= value <= limit for value in values)


def test_any_bytes_are_read_as_they_are_one_by_one() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5000):
        size, room = rng.integers(0, 60, 2).tolist()
        data = rng.integers(0, 128, size + SLACK).astype(np.uint8)
        data |= ((rng.random(len(data)) < rng.choice([0.05, 0.3, 0.6, 0.9])) * 128).astype(np.uint8)
        limit = int(rng.choice([10, 1000, 2**20, 2**31 - 2]))
        out = np.full(64, -9, np.int32)
        read, outside = read_packed(data, 0, size, out, 2, room, np.uint64(limit))
        expected, values, beyond = read_one_by_one(data[:size].tobytes(), room, limit)
        assert read == expected
        if read >= 0:
            assert outside == beyond
            np.testing.assert_array_equal(out[: 2 + read], [-9, -9, *values])
        assert (out[2 + room :] == -9).all()


@pytest.mark.parametrize("samples_per_record", [1, 3])
def test_records_parse_as_examples(samples_per_record: int) -> None:
    from tensorflow.core.example.example_pb2 import Example

    rows = np.array([[1, *EDGES], [0, *EDGES[::-1]], [1] + [7] * 11, [0] * 12], np.int32)
    order = np.array([2, 0, 3, 1])
    packed, size = pack(rows, order)
    out = np.empty(records_room(layout(), size, len(rows), samples_per_record), np.uint8)
    data, ends = encode_samples(layout(), packed, size, len(rows), samples_per_record, out)
    begin = 0
    for record, end in enumerate(ends.tolist()):
        example = Example.FromString(data[begin + 12 : end - 4].tobytes())
        chosen = rows[order[record * samples_per_record :][:samples_per_record]]
        assert list(example.features.feature["label"].int64_list.value) == chosen[:, 0].tolist()
        assert list(example.features.feature["größe"].int64_list.value) == chosen[:, 1:].ravel().tolist()
        begin = end
    assert begin == len(data)
