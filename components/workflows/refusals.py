"""Rows of tables that are refused, with the reasons."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.workflows.quarantine import BadLine
from components.workflows.values import inexact, is_text


class Refusals:
    """The rows of a batch that are refused; the first reason counts.

    Args:
        rows: the batch.
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
        refusals: collect the rows.
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
