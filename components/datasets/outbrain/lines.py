"""Lines of a raw file to columns: with Arrow's CSV reader if all lines are valid, else line by line."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv

from components.datasets.outbrain.raw_files import FLAG, ID, NUMBER, TEXT, TIME, Field
from components.errors import KfrecError
from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import Block, table_of

MISSING = ("", "\\N")
_TYPES = {ID: pa.int64(), FLAG: pa.int64(), NUMBER: pa.float64(), TIME: pa.timestamp("ms"), TEXT: pa.string()}
_BOM = b"\xef\xbb\xbf"
_LARGEST = 2**63 - 1
# pandas writes whole numbers of a column with gaps with a fraction of 0.
_FRACTION = re.compile(r"(?<=\d)\.0*$")


def schema_of(fields: Sequence[Field]) -> pa.Schema:
    """The schema of parsed lines: int64, float64, timestamp[ms] or string; missing values are null."""
    return pa.schema([(field.name, _TYPES[field.kind]) for field in fields])


class LineParser:
    """Parses one file block by block, columns in the order of its header.

    Args:
        path: the file, for messages.
        fields: the columns to read; others are ignored.
    """

    def __init__(self, path: Path, fields: Sequence[Field]) -> None:
        self.path, self.fields, self.header = path, tuple(fields), list[str]()
        self._schema = schema_of(fields)
        self._convert = pv.ConvertOptions(
            include_columns=self._schema.names,
            column_types=self._schema,
            null_values=list(MISSING),
            strings_can_be_null=True,
        )

    def __call__(self, block: Block) -> tuple[pa.Table, list[BadLine]]:
        """The lines of a block, in order, and those that are malformed. Blank lines are skipped.

        Raises:
            KfrecError: the header lacks a column.
        """
        if block.first_line == 1:
            head, _, text = block.text.partition(b"\n")
            self._read_header(head)
            block = Block(text, 2, block.consumed)
        table = self._parse_at_once(block.text)
        if table is not None:
            return table, []
        rows, bad = block.parsed(self._row)
        return table_of(rows, self._schema), bad

    def require_header(self) -> None:
        """Rejects a file that turned out to be empty."""
        if not self.header:
            raise KfrecError(f"{self.path}: empty; get a complete copy of it")

    def _read_header(self, line: bytes) -> None:
        text = line.removeprefix(_BOM).decode("utf-8", "backslashreplace").rstrip("\r")
        self.header = [name.strip() for name in next(csv.reader([text]), [])] or [""]
        for field in self.fields:
            if self.header.count(field.name) != 1:
                there = "no" if field.name not in self.header else "more than one"
                raise KfrecError(
                    f"{self.path}: {there} column {field.name} in its first line {text[:200]!r}; it has to name "
                    f"{', '.join(self._schema.names)}"
                )

    def _parse_at_once(self, text: bytes) -> pa.Table | None:
        """The table, or None if a line needs the slow path."""
        if not text:
            return self._schema.empty_table()
        try:
            table = pv.read_csv(
                pa.BufferReader(text),
                read_options=pv.ReadOptions(column_names=self.header, block_size=1 << 20),
                convert_options=self._convert,
            )
        except pa.ArrowInvalid:
            return None
        if table.num_rows != text.count(b"\n") + (not text.endswith(b"\n")):
            return None
        for field in self.fields:
            column = table[field.name]
            if field.required and column.null_count:
                return None
            if field.kind in (ID, FLAG) and (pc.min(column).as_py() or 0) < 0:
                return None
            if field.kind == FLAG and (pc.max(column).as_py() or 0) > 1:
                return None
            if field.kind == NUMBER and not pc.all(pc.is_finite(column)).as_py():
                return None
        return table

    def _row(self, line: bytes) -> list[Any]:
        try:
            values = next(csv.reader([line.decode("utf-8").rstrip("\r\n")], strict=True))
        except UnicodeDecodeError:
            raise ValueError("not UTF-8") from None
        except csv.Error as error:
            raise ValueError(str(error)) from None
        if len(values) != len(self.header):
            raise ValueError(f"{len(values)} fields, not {len(self.header)}")
        named = dict(zip(self.header, values, strict=True))
        return [_value(field, named[field.name]) for field in self.fields]


def _value(field: Field, text: str) -> Any:
    if text in MISSING:
        if field.required:
            raise ValueError(f"no {field.name}")
        return None
    if field.kind == TEXT:
        return text
    try:
        return _READ[field.kind](text.strip())
    except (ValueError, OverflowError):
        raise ValueError(f"{field.name} is {text[:40]!r}, not {field.kind}") from None


def _id(text: str) -> int:
    text = _FRACTION.sub("", text)
    if not (text.isascii() and text.isdigit() and int(text) <= _LARGEST):
        raise ValueError(text)
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(text)
    return value


def _time(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


_READ: dict[str, Callable[[str], Any]] = {ID: _id, FLAG: ("0", "1").index, NUMBER: _number, TIME: _time}
