"""Records of CSV files that span lines. A quote that is left open swallows the lines that follow it."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from components.errors import KfrecError
from components.workflows.text_blocks import require_bounded

LONGEST_RECORD = 10
"""Lines of a record; more mean that a quote is open."""
ESCAPE = "\\"
_ENDED_IN_A_QUOTE = "unexpected end of data"


class LineCounter:
    """A stream that counts what it passes on: lines, the last one too if it has no end, and quotes.

    Args:
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
        longest: largest number of lines of a record.
        escape: what stands before a quote in quotes; empty is another quote.

    Raises:
        KfrecError: a record is longer, has text after a closing quote in another line, or ends in an open quote; or
            quotes are escaped by a backslash.
    """
    with opened() as stream:
        for first, lines, problem in _records(stream, delimiter, escape):
            if problem and not escape and any(ESCAPE + '"' in line for line in lines):
                raise KfrecError(
                    f"{place}: the record of line {first} has quotes that a backslash escapes; write them as two "
                    f"quotes, {remedy}"
                )
            if len(lines) > longest or problem == _ENDED_IN_A_QUOTE or (problem and len(lines) > 1):
                raise KfrecError(
                    f"{place}: a quote in the record of lines {first} to {first + len(lines) - 1} is left open; "
                    f"close it, {remedy}"
                )


def _records(stream: Any, delimiter: str, escape: str) -> Iterator[tuple[int, list[str], str]]:
    """The number of each record's first line, its lines, and what is wrong with its quotes, or an empty text."""
    text = io.TextIOWrapper(stream, encoding="utf-8", errors="replace", newline="")
    held: list[str] = []

    def lines() -> Iterator[str]:
        for line in text:
            held.append(line)
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, strict=True, doublequote=not escape, escapechar=escape or None)
    limit = csv.field_size_limit(sys.maxsize)
    number = 1
    try:
        while True:
            problem = ""
            try:
                next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = str(error)
            yield number, list(held), problem
            if problem == _ENDED_IN_A_QUOTE:
                return
            number += len(held)
            held.clear()
    finally:
        csv.field_size_limit(limit)
