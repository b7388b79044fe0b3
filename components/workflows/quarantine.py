"""Malformed lines: counted, kept in a side file, and refused above a limit."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from components.errors import KfrecError
from components.workflows.partitions import name_within

ARRAY = "a JSON array, not an object a line; convert the file with jq -c '.[]'"
"""The reason for a line of JSON that holds several objects."""


@dataclass(frozen=True)
class BadLine:
    """A line that was left out.

    Attributes:
        number: line number in its file, from 1.
        reason: what is wrong with it.
        text: the line itself.
    """

    number: int
    reason: str
    text: bytes


@dataclass
class Quarantine:
    """The bad lines of one raw file.

    Attributes:
        source: the raw file.
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
        """Refuses the file if too many of its ``lines`` were bad.

        Raises:
            KfrecError: the share of bad lines is above the limit.
        """
        if self.first is not None and self.count > self.limit * lines:
            raise KfrecError(
                f"{self.source}: {self.count} of {lines} {self.unit}s are not {self.what}, the first is {self.unit} "
                f"{self.first.number} ({self.first.reason}); correct the file or raise malformed_limit ({self.limit:g})"
            )
