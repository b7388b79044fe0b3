"""Records of CSV files that span lines. A quote that is left open swallows the lines that follow it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from components.errors import KfrecError

LONGEST_RECORD = 10
"""Lines of a record; more mean that a quote is open."""
_ENDED_IN_A_QUOTE = "unexpected end of data"


class LineCounter:
    """A stream that counts the lines which it passes on, the last one too if it has no end."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream, self._ends, self._last = stream, 0, b"\n"

    @property
    def lines(self) -> int:
        return self._ends + (self._last != b"\n")

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._stream.read(size)
        if data:
            self._ends += data.count(b"\n")
            self._last = data[-1:]
        return data


def require_closed_quotes(
    place: str, opened: Callable[[], AbstractContextManager[Any]], delimiter: str, longest: int, remedy: str
) -> None:
    """Reads a file again, slowly, if it has fewer records than lines.

    Args:
        place: the file, for messages.
        opened: opens its stream.
        delimiter: of the values.
        longest: largest number of lines of a record.
        remedy: other than closing the quote.

    Raises:
        KfrecError: a record spans more lines, or the file ends within a quote.
    """
    with opened() as stream:
        for first, lines, is_open in _records(stream, delimiter):
            if is_open:
                raise KfrecError(f"{place}: a quote in the record of line {first} is never closed; close it, {remedy}")
            if lines > longest:
                raise KfrecError(
                    f"{place}: the record of line {first} spans {lines} lines, so a quote in it is probably left open; "
                    f"close it, {remedy}"
                )


def _records(stream: Any, delimiter: str) -> Iterator[tuple[int, int, bool]]:
    """First line, number of lines, and whether the file ends within it, of each record."""
    text = io.TextIOWrapper(io.BufferedReader(_Raw(stream)), encoding="utf-8", errors="replace", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    limit = csv.field_size_limit(sys.maxsize)
    try:
        while True:
            before = reader.line_num
            try:
                next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                if str(error) == _ENDED_IN_A_QUOTE:
                    yield before + 1, reader.line_num - before, True
                    return
            yield before + 1, reader.line_num - before, False
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
