"""The pages of a parquet column chunk: found by their Thrift headers, read and decompressed one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.parquet.thrift import read_message

_HEADER_ROOM = 1 << 12
_LARGEST_PAGE = 16 << 20
_LENGTH = 4  # bytes of the size in front of levels
_DATA, _INDEX, _DICTIONARY, _DATA_V2 = range(4)
_DATA_HEADER, _DICTIONARY_HEADER, _DATA_V2_HEADER = 5, 7, 8
_CODECS = {"UNCOMPRESSED": None, "SNAPPY": "snappy", "ZSTD": "zstd", "GZIP": "gzip", "LZ4": "lz4_raw"}


class Unusual(Exception):
    """The column is not written as most are, or is damaged: the general reader will know."""


@dataclass(frozen=True)
class Page:
    """A page of lists.

    Attributes:
        data: uint8, repetition levels, definition levels and values.
        count: number of values.
        encoding: of the values, by its number in the format.
        repetition: the place of the repetition levels in ``data``.
        definition: the place of the definition levels.
        values: where the values begin.
        is_dictionary: whether these are the values that later pages refer to, without levels.
    """

    data: np.ndarray
    count: int
    encoding: int
    repetition: tuple[int, int] = (0, 0)
    definition: tuple[int, int] = (0, 0)
    values: int = 0
    is_dictionary: bool = False


def read_pages(descriptor: int, chunk: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """The pages of a column of lists, in order.

    Args:
        descriptor: of the open file.
        chunk: the column in a row group.

    Raises:
        Unusual: they cannot be read here.
    """
    if chunk.compression not in _CODECS:
        raise Unusual
    codec = _CODECS[chunk.compression] and pa.Codec(_CODECS[chunk.compression])
    at = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
    end, left = at + chunk.total_compressed_size, chunk.num_values
    while left > 0:
        header, size = _header(os.pread(descriptor, min(_HEADER_ROOM, end - at), at))
        kind, stored = _number(header, 1), _number(header, 3)
        at += size
        if stored > end - at:
            raise Unusual
        if kind != _INDEX:
            raw = os.pread(descriptor, stored, at)
            if len(raw) != stored:
                raise Unusual
            page = _page(kind, header, raw, codec)
            left -= 0 if page.is_dictionary else page.count
            yield page
        at += stored


def _page(kind: int, header: dict[int, Any], raw: bytes, codec: pa.Codec | None) -> Page:
    size = _number(header, 2)
    if kind == _DICTIONARY:
        fields = _fields(header, _DICTIONARY_HEADER)
        return Page(_decompressed(raw, 0, size, codec), _number(fields, 1), _number(fields, 2), is_dictionary=True)
    if kind == _DATA:
        fields, data = _fields(header, _DATA_HEADER), _decompressed(raw, 0, size, codec)
        repetition = _levels(data, 0)
        definition = _levels(data, repetition[1])
        return Page(data, _number(fields, 1), _number(fields, 2), repetition, definition, definition[1])
    if kind == _DATA_V2:
        fields = _fields(header, _DATA_V2_HEADER)
        repeated, values = _number(fields, 6), _number(fields, 6) + _number(fields, 5)
        if values > min(len(raw), size):
            raise Unusual
        data = _decompressed(raw, values, size, codec if fields.get(7, True) else None)
        return Page(data, _number(fields, 1), _number(fields, 4), (0, repeated), (repeated, values), values)
    raise Unusual


def _number(fields: dict[int, Any], number: int) -> int:
    """A size or a choice in a header; pages above _LARGEST_PAGE would take too much memory at once."""
    value = fields.get(number)
    if not isinstance(value, int) or not 0 <= value <= _LARGEST_PAGE:
        raise Unusual
    return value


def _fields(header: dict[int, Any], number: int) -> dict[int, Any]:
    fields = header.get(number)
    if not isinstance(fields, dict):
        raise Unusual
    return fields


def _decompressed(raw: bytes, plain: int, size: int, codec: pa.Codec | None) -> np.ndarray:
    """The ``size`` bytes of a page whose first ``plain`` bytes are not compressed, uint8 and read-only."""
    data: pa.Buffer | bytes = raw
    if codec is not None and len(raw) > plain:
        try:
            data = codec.decompress(memoryview(raw)[plain:], size - plain)
        except (pa.ArrowException, OSError):
            raise Unusual from None
        if plain:
            data = raw[:plain] + data.to_pybytes()
    array = np.frombuffer(data, np.uint8)
    if len(array) != size:
        raise Unusual
    array.flags.writeable = False  # as bytes are; kernels are compiled for one kind
    return array


def _levels(data: np.ndarray, at: int) -> tuple[int, int]:
    """Where levels that begin with their size are."""
    if len(data) - at < _LENGTH:
        raise Unusual
    begin = at + _LENGTH
    end = begin + int.from_bytes(data[at:begin].tobytes(), "little")
    if end > len(data):
        raise Unusual
    return begin, end


def _header(data: bytes) -> tuple[dict[int, Any], int]:
    """A page header, by the numbers of its fields, and its bytes."""
    try:
        return read_message(data)
    except (ValueError, IndexError, RecursionError):  # none is in a header that is whole
        raise Unusual from None
