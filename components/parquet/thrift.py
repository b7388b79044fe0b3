"""Thrift's compact protocol, as far as parquet's headers need it.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from typing import Any

_TRUE, _FALSE, _I16, _I32, _I64, _BINARY, _STRUCT = 1, 2, 4, 5, 6, 8, 12


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
