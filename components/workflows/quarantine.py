"""Malformed lines and refused rows: counted, written to a side file, and an error above a limit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import KfrecError
from components.workflows.partitions import name_within
from components.workflows.values import inexact, is_text

ARRAY = "a JSON array, not an object a line; convert the file with jq -c '.[]'"
"""The reason for a line of JSON that holds several objects."""


@dataclass(frozen=True)
class BadLine:
    """A line that was left out.

    Attributes:
        number: line number in its file, from 1.
    """

    number: int
    reason: str
    text: bytes


@dataclass
class Quarantine:
    """The bad lines of one raw file.

    Attributes:
        folder: where the side file <name of the raw file>.jsonl goes, once there is a bad line.
        limit: largest accepted share of bad lines.
        what: what a line should be, for the message.
        unit: what is counted, in place of lines.
    """

    source: Path
    folder: Path
    limit: float
    what: str
    unit: str = "line"
    count: int = 0
    first: BadLine | None = None
    _file: TextIO | None = field(default=None, repr=False)

    def add(self, bad: list[BadLine]) -> None:
        for line in bad:
            self.first = self.first or line
            self.count += 1
            if self._file is None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._file = (self.folder / f"{name_within(self.source).replace('/', ',')}.jsonl").open(
                    "w", encoding="utf-8"
                )
            entry = {"line": line.number, "reason": line.reason, "text": line.text.decode("utf-8", "backslashreplace")}
            self._file.write(json.dumps(entry) + "\n")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def judge(self, lines: int) -> None:
        """Refuses the file if too many of its ``lines`` were bad."""
        if self.first is not None and self.count > self.limit * lines:
            raise KfrecError(
                f"{self.source}: {self.count} of {lines} {self.unit}s are not {self.what}, the first is {self.unit} "
                f"{self.first.number} ({self.first.reason}); correct the file or raise malformed_limit ({self.limit:g})"
            )


class Refusals:
    """The rows of a batch that are refused; the first reason counts.

    Args:
        lines: int64, row numbers in the file.
    """

    def __init__(self, rows: pa.RecordBatch, lines: np.ndarray) -> None:
        self._rows, self._lines = rows, lines
        self.refused = np.zeros(len(rows), bool)
        self.lines: list[BadLine] = []

    def add(self, where: np.ndarray, column: str, what: str) -> None:
        """Refuses the rows ``where``, because ``column`` is ``what``."""
        for row in np.flatnonzero(where & ~self.refused).tolist():
            values = [str(value) for value in self._rows.slice(row, 1).to_pylist()[0].values()]
            reason = f"column {column} is {self._rows.column(column)[row].as_py()!r}: {what}"
            self.lines.append(BadLine(int(self._lines[row]), reason, "\t".join(values).encode()))
        self.refused |= where


def refuse_ids(column: pa.Array, name: str, refusals: Refusals) -> None:
    """Refuses values that cannot be told apart: floats beyond 2**53, and text with a NUL character.

    Args:
        column: of one value a row, or of a list.
    """
    values, rows = column, np.arange(len(column))
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values, rows = column.flatten(), pc.list_parent_indices(column).to_numpy(zero_copy_only=False)

    def add(where: np.ndarray, what: str) -> None:
        refusals.add(np.bincount(rows[where], minlength=len(column)) > 0, name, what)

    add(inexact(values), "a float, beyond 2**53; store such ids as integers or as text")
    if is_text(values.type):
        text = values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
        if is_text(text.type):
            with_nul = pc.fill_null(pc.match_substring(text, "\0"), False)
            add(with_nul.to_numpy(zero_copy_only=False), "text with a NUL character")
