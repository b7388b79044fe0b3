"""Writing columns of integers to parquet, where no value is null and all lists of a table have one length.

The general writer takes about 13 ns for a value of a list, most of it for levels. Here those are the same for every
row, and a value is copied and compressed. The layout of a file is that of
https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.parquet.thrift import Value, boolean, i8, i32, i64, message, sequence, struct, text, varint

_MAGIC = b"PAR1"
_PAGE_BYTES = 1 << 20
_TYPES = (pa.int8(), pa.int16(), pa.int32())
_INT32, _REQUIRED, _REPEATED = 1, 0, 2
_LIST, _INTEGER = 3, 10  # fields of LogicalType
_CONVERTED = {"list": 3, 8: 15, 16: 16}
_PLAIN, _RLE = 0, 3
_LZ4_RAW = 7
_DATA_PAGE = 0


@dataclass
class _Chunk:
    """A column in the row group that is being filled."""

    pages: list[bytes] = field(default_factory=list)
    values: int = 0
    uncompressed: int = 0

    def add(self, data: bytes, values: int, codec: pa.Codec) -> None:
        """Appends a page of ``values`` values."""
        stored = codec.compress(data, asbytes=True)
        encodings = {2: i32(_PLAIN), 3: i32(_RLE), 4: i32(_RLE)}
        header = message(
            {1: i32(_DATA_PAGE), 2: i32(len(data)), 3: i32(len(stored)), 5: struct({1: i32(values), **encodings})}
        )
        self.pages += [header, stored]
        self.values += values
        self.uncompressed += len(header) + len(data)

    @property
    def stored(self) -> int:
        return sum(map(len, self.pages))


class TableWriter:
    """Writes tables into one file, compressed with LZ4; a context, at whose end the file is whole.

    Args:
        path: the file.
        schema: columns of int8, int16 or int32 and of lists of these, none of them nullable.
        group_rows: a row group ends with the table that makes it as large.

    Raises:
        ValueError: a column is of another type, or nullable.
    """

    def __init__(self, path: Path, schema: pa.Schema, group_rows: int) -> None:
        for column in schema:
            leaf = column.type.value_field if pa.types.is_list(column.type) else column
            if leaf.type not in _TYPES or leaf.nullable or column.nullable:
                raise ValueError(
                    f"{column}: only int8, int16 and int32 and lists of them, not nullable, can be written"
                )
        self._schema, self._group_rows = schema, group_rows
        self._codec = pa.Codec("lz4_raw")
        self._groups: list[Value] = []
        self.rows = 0  # Written so far.
        self._begin_group()
        self._file = path.open("wb")
        self._at = self._file.write(_MAGIC)

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with self._file:
            if kind is None:
                self._end_group()
                footer = self._footer()
                self._file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def write(self, table: pa.Table) -> None:
        """Appends rows.

        Args:
            table: of the writer's schema.

        Raises:
            ValueError: another schema, nulls, or lists of a column that are empty or differ in length.
        """
        if table.schema != self._schema:
            raise ValueError(f"a table of {table.schema} for a file of {self._schema}")
        for chunk, name in zip(self._chunks, self._schema.names, strict=True):
            for array in table[name].chunks:
                for data, values in _pages(array, name):
                    chunk.add(data, values, self._codec)
        self.rows += table.num_rows
        self._group += table.num_rows
        if self._group >= self._group_rows:
            self._end_group()

    def _begin_group(self) -> None:
        self._chunks = [_Chunk() for _ in self._schema]
        self._group = 0

    def _end_group(self) -> None:
        if not self._group:
            return
        begin, columns = self._at, []
        for column, chunk in zip(self._schema, self._chunks, strict=True):
            columns.append(struct({2: i64(0), 3: _chunk_metadata(column, chunk, self._at)}))
            self._file.writelines(chunk.pages)
            self._at += chunk.stored
        self._groups.append(
            struct(
                {
                    1: sequence(columns),
                    2: i64(sum(chunk.uncompressed for chunk in self._chunks)),
                    3: i64(self._group),
                    5: i64(begin),
                    6: i64(self._at - begin),
                }
            )
        )
        self._begin_group()

    def _footer(self) -> bytes:
        elements = [struct({4: text("schema"), 5: i32(len(self._schema))})]
        for column in self._schema:
            elements += _elements(column)
        return message({1: i32(2), 2: sequence(elements), 3: i64(self.rows), 4: sequence(self._groups)})


def _pages(array: pa.Array, name: str) -> Iterator[tuple[bytes, int]]:
    """The pages of an array, uncompressed, and the values in each."""
    if not len(array):
        return
    values, length = array, 0
    if pa.types.is_list(array.type):
        values, lengths = array.flatten(), pc.list_value_length(array).drop_null().to_numpy()
        length = int(lengths.max(initial=0))
        if not length or (lengths != length).any():
            raise ValueError(f"{name}: lists of {lengths.min(initial=length)} to {length} values; one length is needed")
    if array.null_count or values.null_count:
        raise ValueError(f"{name}: has nulls")
    rows = values.to_numpy().astype(np.int32, copy=False).reshape(len(array), -1)
    step = max(_PAGE_BYTES // (rows.shape[1] * 4), 1)
    for first in range(0, len(rows), step):
        page = rows[first : first + step]
        yield b"".join([*_levels(len(page), length), page.data]), page.size


def _levels(rows: int, length: int) -> list[bytes]:
    """Repetition and definition levels of ``rows`` lists of ``length`` values, each in runs of a one-bit level."""
    if not length:
        return []
    repetition = rows * (_run(1, 0) + _run(length - 1, 1))
    definition = _run(rows * length, 1)
    return [len(repetition).to_bytes(4, "little"), repetition, len(definition).to_bytes(4, "little"), definition]


def _run(size: int, level: int) -> bytes:
    return varint(size << 1) + bytes([level]) if size else b""


def _chunk_metadata(column: pa.Field, chunk: _Chunk, at: int) -> Value:
    path = [column.name, "list", column.type.value_field.name] if pa.types.is_list(column.type) else [column.name]
    return struct(
        {
            1: i32(_INT32),
            2: sequence([i32(_PLAIN), i32(_RLE)]),
            3: sequence([text(part) for part in path]),
            4: i32(_LZ4_RAW),
            5: i64(chunk.values),
            6: i64(chunk.uncompressed),
            7: i64(chunk.stored),
            9: i64(at),
        }
    )


def _elements(column: pa.Field) -> list[Value]:
    """What the footer's schema says of a column."""
    if pa.types.is_list(column.type):
        kind = {6: i32(_CONVERTED["list"]), 10: struct({_LIST: struct({})})}
        return [
            struct({3: i32(_REQUIRED), 4: text(column.name), 5: i32(1), **kind}),
            struct({3: i32(_REPEATED), 4: text("list"), 5: i32(1)}),
            *_elements(column.type.value_field),
        ]
    kind, bits = {}, column.type.bit_width
    if bits < 32:
        kind = {6: i32(_CONVERTED[bits]), 10: struct({_INTEGER: struct({1: i8(bits), 2: boolean(True)})})}
    return [struct({1: i32(_INT32), 3: i32(_REQUIRED), 4: text(column.name), **kind})]
