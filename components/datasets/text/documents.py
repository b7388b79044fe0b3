"""Lines to partitions: files of whole documents of about one size, not yet tokenized."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from components.datasets.text.lines import LINE
from components.random_draws import fraction_of

# A document is cut where it is as many times as long as a partition.
_LONGEST = 4
_DOCUMENT, _PIECE = "document", "piece"
_SCHEMA = pa.schema([(LINE, pa.large_string()), (_DOCUMENT, pa.int64()), (_PIECE, pa.int32())])
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


class Document(NamedTuple):
    """A document, or a piece of a long one.

    Attributes:
        key: what names it: its file, its number there, and the number of the piece.
        lines: its sentences.
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
        path: Arrow file.
        source: name of the raw file.
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
        written: the partitions so far.
        documents: number of documents so far.
    """

    folder: Path
    size: int
    written: list[Partition] = field(default_factory=list)
    documents: int = 0

    def add(self, source: str, tables: Iterable[pa.Table]) -> Iterator[list[Document]]:
        """Adds a raw file; yields the documents of each partition as it is written.

        Args:
            source: name of the file.
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
                elif bytes_held >= _LONGEST * self.size:
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
