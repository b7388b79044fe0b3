"""Records of CSV files that span lines. A quote that is left open swallows the lines that follow it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from components.errors import KfrecError
from components.workflows.text_blocks import require_bounded
from components.workflows.values import DEFAULT_MISSING

LONGEST_RECORD = 10
"""Lines of a record; more mean that a quote is open."""
ESCAPE = "\\"
_ENDED_IN_A_QUOTE = "unexpected end of data"


class LineCounter:
    """A stream that counts what it passes on: lines, the last one too if it has no end, and quotes.

    Args:
        stream: to read.
        place: the file, for messages.
        longest_line: longest accepted line, in MiB; ``read`` raises KfrecError at a longer one.
    """

    closed = False

    def __init__(self, stream: Any, place: str, longest_line: float) -> None:
        self._stream, self._ends, self._last = stream, 0, b"\n"
        self._quotes = self._escaped = self._line = 0
        self._place, self._longest = place, longest_line

    @property
    def lines(self) -> int:
        return self._ends + (self._last not in (b"\n", b"\r"))

    def may_be_open(self, records: int) -> bool:
        """Whether a quote may be left open, or escaped: there are more lines than records, odd quotes, or ``\\"``."""
        return self.lines > records or self._quotes % 2 == 1 or self._escaped > 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        if data:
            # A carriage return alone ends a line, too.
            returns = data.count(b"\r") - data.count(b"\r\n") - (self._last == b"\r" and data[:1] == b"\n")
            self._ends += data.count(b"\n") + returns
            last = max(data.rfind(b"\n"), data.rfind(b"\r"))
            self._line = len(data) - 1 - last + (self._line if last < 0 else 0)
            require_bounded(self._place, self._ends + 1, self._line, self._longest)
            self._quotes += data.count(b'"')
            self._escaped += data.count(b'\\"') + (self._last == b"\\" and data[:1] == b'"')
            self._last = data[-1:]
        return data


@dataclass(frozen=True)
class _Record:
    """A record of a file.

    Attributes:
        first: number of its first line, from 1.
        lines: its lines.
        is_open: whether the file ends within it, in quotes.
        is_strict: whether a value that begins with a quote also ends with one.
    """

    first: int
    lines: list[str]
    is_open: bool
    is_strict: bool

    def swallows(self, rows: _Rows) -> bool:
        """Whether the record seems to hold others: text follows a closing quote, or its lines are rows."""
        if len(self.lines) == 1:
            return False
        # Text of two lines, or of two columns, may be like rows by chance, unless these have numbers.
        within = self.lines[1:] if any(rows.numbers) and len(self.lines) == 2 else self.lines[1:-1]
        if len(rows.numbers) == 2 and not any(rows.numbers):
            within = []
        return not self.is_strict or (bool(within) and all(map(rows.are_like, within)))


@dataclass(frozen=True)
class _Rows:
    """What the lines of rows look like.

    Attributes:
        numbers: which values are numbers.
    """

    delimiter: str
    numbers: tuple[bool, ...]

    def are_like(self, line: str) -> bool:
        """Whether a line may be a row of several values."""
        values = line.strip("\r\n").split(self.delimiter)
        return 1 < len(values) == len(self.numbers) and all(
            not is_number or value in DEFAULT_MISSING or _is_number(value.strip('"'))
            for is_number, value in zip(self.numbers, values, strict=True)
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def require_closed_quotes(
    place: str,
    opened: Callable[[], AbstractContextManager[Any]],
    delimiter: str,
    longest: int,
    remedy: str,
    escape: str = "",
) -> None:
    """Reads a file again, slowly, if ``LineCounter.may_be_open``.

    Args:
        place: the file, for messages.
        opened: opens its stream.
        longest: largest number of lines of a record; another than LONGEST_RECORD says that records may hold lines that
            are like rows.
        remedy: other than closing the quote.
        escape: what stands before a quote in quotes; empty is another quote.

    Raises:
        KfrecError: a record seems to span lines because of an open quote, the file ends within a quote, or quotes are
            escaped by a backslash.
    """
    rows = _Rows(delimiter, ())
    with opened() as stream:
        for record in _records(stream, delimiter, escape):
            if len(record.lines) == 1 and not any(rows.numbers):
                values = record.lines[0].rstrip("\r\n").split(delimiter)
                rows = _Rows(delimiter, tuple(_is_number(value.strip('"')) for value in values))
            where, lines = f"{place}: the record of line {record.first}", len(record.lines)
            if not record.is_strict and not escape and any(ESCAPE + '"' in line for line in record.lines):
                raise KfrecError(f"{where} has quotes that a backslash escapes; write them as two quotes, {remedy}")
            if record.is_open:
                raise KfrecError(
                    f"{place}: a quote in the record of line {record.first} is never closed; close it, {remedy}"
                )
            if lines > longest or (longest == LONGEST_RECORD and record.swallows(rows)):
                raise KfrecError(
                    f"{where} spans {lines} lines, so a quote in it is probably left open; close it, {remedy}"
                )


def _records(stream: Any, delimiter: str, escape: str) -> Iterator[_Record]:
    text = io.TextIOWrapper(io.BufferedReader(_Raw(stream)), encoding="utf-8", errors="replace", newline="")
    held: list[str] = []

    def lines() -> Iterator[str]:
        for line in text:
            held.append(line)
            yield line

    doubled = not escape
    reader = csv.reader(lines(), delimiter=delimiter, strict=True, doublequote=doubled, escapechar=escape or None)
    limit = csv.field_size_limit(sys.maxsize)
    number = 1
    try:
        while True:
            message = ""
            try:
                next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                message = str(error)
            is_open = message == _ENDED_IN_A_QUOTE
            yield _Record(number, list(held), is_open, not message)
            if is_open:
                return
            number += len(held)
            held.clear()
    finally:
        csv.field_size_limit(limit)


class _Raw(io.RawIOBase):
    """Arrow's and zipfile's streams as Python's."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
