"""Bytes that the protocol buffer library and google_crc32c agree with."""

from __future__ import annotations

import google_crc32c
import numpy as np
import pytest

from components.feature_spec import Channel, Feature, FeatureSpec
from components.records import crc32c as crc32c_module
from components.records import varint as varint_module
from components.records.compiled import kernel
from components.records.crc32c import crc32c
from components.records.decoding import Layout, layout_of
from components.records.encoding import encode_samples, records_room
from components.records.packing import pack_samples, packed_room, varints_room, write_lists
from components.records.varint import read_packed, varint_size, write_varint
from components.records.words import SLACK

EDGES = [0, 1, 127, 128, 16_383, 16_384, 2**21 - 1, 2**21, 2**28 - 1, 2**28, 2**31 - 2]


def layout() -> Layout:
    features = {"label": Feature("label", "bool"), "größe": Feature("größe", "int64", 2**31 - 2, 11)}
    return layout_of(FeatureSpec(features, {}, {Channel.LABEL: ("label",)}), list(features))


def table_crc(data: np.ndarray) -> int:
    """The CRC as computed where the CPU has no instruction for it."""
    crc = np.uint64(0xFFFFFFFF)
    for word in np.ascontiguousarray(data).view(np.uint64):
        crc = crc32c_module._eight_by_table(crc, word)
    return int(crc) ^ 0xFFFFFFFF


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 100, 4096, 4099])
def test_crc32c_is_that_of_the_library(size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 3, dtype=np.uint8)
    assert int(crc32c(data, 3, size + 3)) == google_crc32c.value(data[3:].tobytes())


def test_the_tables_give_the_same_crc32c_as_the_instruction() -> None:
    data = np.random.default_rng(5).integers(0, 256, 800, dtype=np.uint8)
    assert table_crc(data) == google_crc32c.value(data.tobytes())


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


@kernel
def write(values, out):  # type: ignore[no-untyped-def]
    at = 0
    for value in values:
        at = write_varint(out, at, value)
    return at


def test_shifts_spread_a_value_as_the_instruction_does() -> None:
    values = np.array([*EDGES, 0x55555555, 2**32 - 1], np.uint64)
    spread = [int(varint_module._spread_by_shifts(value)) for value in values]
    assert spread == [sum((value >> 7 * i & 127) << 8 * i for i in range(5)) for value in values.tolist()]


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


def test_values_out_of_range_are_counted() -> None:
    packed = np.zeros(5 * len(EDGES) + SLACK, np.uint8)
    size = write(np.array(EDGES, np.int32), packed)
    out = np.empty(len(EDGES), np.int32)
    assert read_packed(packed, 0, size, out, 0, len(out), np.uint64(2**28 - 1)) == (len(EDGES), 2)


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
