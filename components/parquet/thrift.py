"""Thrift's compact protocol, as far as parquet's headers and footers need it.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 5, 6, 8, 9, 12
_STOP = b"\0"

Value = tuple[int, bytes]  # A type by its number, and what is written behind it.


def i8(value: int) -> Value:
    return _BYTE, value.to_bytes(1, "little", signed=True)


def i32(value: int) -> Value:
    return _I32, varint(value << 1 ^ value >> 63)


def i64(value: int) -> Value:
    return _I64, varint(value << 1 ^ value >> 63)


def boolean(value: bool) -> Value:
    return (_TRUE if value else _FALSE), b""


def text(value: str) -> Value:
    encoded = value.encode()
    return _BINARY, varint(len(encoded)) + encoded


def struct(fields: Mapping[int, Value]) -> Value:
    """A struct inside another; fields by their numbers, which must rise."""
    return _STRUCT, message(fields)


def sequence(values: Sequence[Value]) -> Value:
    """A list of values of one type, not booleans."""
    kind = values[0][0] if values else _STRUCT
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + varint(len(values))
    return _LIST, head + b"".join(value for _, value in values)


def message(fields: Mapping[int, Value]) -> bytes:
    """A struct on its own; fields by their numbers, which must rise, each by less than 16."""
    parts, last = [], 0
    for number, (kind, value) in fields.items():
        parts += [bytes([number - last << 4 | kind]), value]
        last = number
    return b"".join([*parts, _STOP])


def varint(value: int) -> bytes:
    """A number that is not negative, seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])


def read_message(data: bytes, at: int = 0) -> tuple[dict[int, Any], int]:
    """A struct by the numbers of its fields, with numbers, booleans and structs but no texts; and the place behind it.

    Raises:
        ValueError: something else is in it.
        IndexError: ``data`` ends within it.
        RecursionError: structs within structs without end.
    """
    fields: dict[int, Any] = {}
    number = 0
    while byte := data[at]:
        at += 1
        kind, step = byte & 15, byte >> 4
        if not step:
            raise ValueError("a field out of order")
        number += step
        if kind in (_TRUE, _FALSE):
            fields[number] = kind == _TRUE
        elif kind in (_I16, _I32, _I64):
            value, at = _read_varint(data, at)
            fields[number] = value >> 1 ^ -(value & 1)
        elif kind == _BINARY:
            size, at = _read_varint(data, at)
            at += size
        elif kind == _STRUCT:
            fields[number], at = read_message(data, at)
        else:
            raise ValueError(f"a field of type {kind}")
    return fields, at + 1


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
