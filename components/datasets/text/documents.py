"""Lines of text files to partitions: files of whole documents of about one size, not yet tokenized."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from components.random_draws import fraction_of
from components.text.wordpiece import has_words
from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import Block

LINE = "line"
# No sentence is as long: a file without line ends is one line.
_LONGEST_LINE = 1 << 16
_LINES = pa.schema([pa.field(LINE, pa.large_string())])
# A document is cut where it is as many times as long as a partition.
_LONGEST_DOCUMENT = 4
_DOCUMENT, _PIECE = "document", "piece"
_SCHEMA = pa.schema([(LINE, pa.large_string()), (_DOCUMENT, pa.int64()), (_PIECE, pa.int32())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


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
    if max(map(len, lines), default=0) > _LONGEST_LINE:
        too_long = [
            BadLine(number, f"{len(line):,} characters; write one sentence a line", line[:1000].encode())
            for number, line in zip(numbers, lines, strict=False)
            if len(line) > _LONGEST_LINE
        ]
        bad = sorted((*bad, *too_long), key=lambda each: each.number)
        lines = [line for line in lines if len(line) <= _LONGEST_LINE]
    # Almost every line begins with a letter or a digit, which is a word.
    lines = [line if line[:1].isalnum() or has_words(line) else "" for line in lines]
    return pa.table([pa.array(lines, pa.large_string())], schema=_LINES), bad


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


class Document(NamedTuple):
    """A document, or a piece of a long one.

    Attributes:
        key: what names it: its file, its number there, and the number of the piece.
    """

    key: tuple[str, int, int]
    lines: list[str]

    def draw(self, seed: int) -> float:
        """What decides on its split: uniform in [0, 1), the same for all pieces of a document."""
        return fraction_of(seed, *self.key[:2])


@dataclass(frozen=True)
class Partition:
    """Documents of one file.

    Attributes:
        size: of the text, in bytes.
    """

    path: Path
    source: str
    size: int

    def documents(self) -> Iterator[Document]:
        """The documents, in order."""
        with pa.OSFile(str(self.path)) as file:
            table = pa.ipc.open_file(file).read_all()
        rows = zip(*(table[name].to_pylist() for name in (_DOCUMENT, _PIECE, LINE)), strict=True)
        for (number, piece), lines in groupby(rows, key=lambda row: row[:2]):
            yield Document((self.source, number, piece), [line for _, _, line in lines])


@dataclass
class Partitions:
    """Writes the documents of raw files as partitions.

    Attributes:
        size: bytes of a partition; its last document may exceed them.
    """

    folder: Path
    size: int
    written: list[Partition] = field(default_factory=list)
    documents: int = 0

    def add(self, source: str, tables: Iterable[pa.Table]) -> Iterator[list[Document]]:
        """Adds a raw file; yields the documents of each partition as it is written.

        Args:
            tables: of its lines; an empty one ends a document.
        """
        held: list[Document] = []
        bytes_held, number, is_open = 0, -1, False
        for table in tables:
            for line in table[LINE].to_pylist():
                if not line:
                    is_open = False
                    continue
                if not is_open:
                    if bytes_held >= self.size:
                        yield self._write(source, held, bytes_held)
                        held, bytes_held = [], 0
                    number, is_open = number + 1, True
                    held.append(Document((source, number, 0), []))
                elif bytes_held >= _LONGEST_DOCUMENT * self.size:
                    piece = held[-1].key[2] + 1
                    yield self._write(source, held, bytes_held)
                    held, bytes_held = [Document((source, number, piece), [])], 0
                held[-1].lines.append(line)
                bytes_held += len(line) + 1
        self.documents += number + 1
        if held:
            yield self._write(source, held, bytes_held)

    def _write(self, source: str, documents: list[Document], size: int) -> list[Document]:
        path = self.folder / f"documents-{len(self.written)}.arrow"
        rows = [(line, *document.key[1:]) for document in documents for line in document.lines]
        table = pa.table(
            [pa.array(each, kind.type) for each, kind in zip(zip(*rows, strict=True), _SCHEMA, strict=True)],
            schema=_SCHEMA,
        )
        with pa.ipc.new_file(str(path), _SCHEMA, options=_OPTIONS) as writer:
            writer.write_table(table)
        self.written.append(Partition(path, source, size))
        return documents


def profiled(documents: list[Document]) -> pa.Table:
    """What the data checks see of documents: sentences, characters, and a digest that tells duplicates."""
    texts = ["\n".join(document.lines) for document in documents]
    return pa.table(
        {
            "sentences": pa.array([len(document.lines) for document in documents], pa.int64()),
            "characters": pa.array(list(map(len, texts)), pa.int64()),
            "digest": pa.array([hashlib.blake2b(text.encode(), digest_size=12).hexdigest() for text in texts]),
        }
    )
