"""Lines of a text file."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from components.text.normalization import has_words
from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import Block

LINE = "line"
# No sentence is as long: a file without line ends is one line.
_LONGEST = 1 << 16
_SCHEMA = pa.schema([pa.field(LINE, pa.large_string())])


def parse_lines(block: Block) -> tuple[pa.Table, list[BadLine]]:
    """The lines of a block, and those that are no text or too long.

    White space around a line is left out. A line without words, such as a zero-width space, is empty.
    """
    bad: list[BadLine] = []
    try:
        lines = block.text.decode().split("\n")
        numbers: Sequence[int] = range(block.first_line, block.first_line + len(lines))
    except UnicodeDecodeError:
        numbers, lines, bad = _decodable(block)
    if lines and not lines[-1]:
        lines.pop()  # what follows the last line end
    lines = [line.strip() for line in lines]
    if max(map(len, lines), default=0) > _LONGEST:
        too_long = [
            BadLine(number, f"{len(line):,} characters; write one sentence a line", line[:1000].encode())
            for number, line in zip(numbers, lines, strict=False)
            if len(line) > _LONGEST
        ]
        bad = sorted((*bad, *too_long), key=lambda each: each.number)
        lines = [line for line in lines if len(line) <= _LONGEST]
    # Almost every line begins with a letter or a digit, which is a word.
    lines = [line if line[:1].isalnum() or has_words(line) else "" for line in lines]
    return pa.table([pa.array(lines, pa.large_string())], schema=_SCHEMA), bad


def _decodable(block: Block) -> tuple[list[int], list[str], list[BadLine]]:
    numbers: list[int] = []
    lines: list[str] = []
    bad: list[BadLine] = []
    for number, line in enumerate(block.text.split(b"\n"), block.first_line):
        try:
            lines.append(line.decode())
            numbers.append(number)
        except UnicodeDecodeError as error:
            wrong = line[error.start]
            bad.append(BadLine(number, f"byte {wrong:#04x} is not UTF-8", line[:1000]))
    return numbers, lines, bad
