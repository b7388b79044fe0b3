"""Raw files to partitions: files of a fixed number of parsed impressions, not yet encoded as ids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from components.datasets.criteo.columns import LINE

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


@dataclass(frozen=True)
class Partition:
    """Consecutive impressions of one raw file.

    Attributes:
        first: row of the first one in its raw file, from 0.
    """

    path: Path
    first: int
    rows: int


@dataclass(frozen=True)
class Span:
    """One split's impressions in one partition: rows ``begin`` to ``end`` of their raw file."""

    partition: Partition
    begin: int
    end: int

    @property
    def rows(self) -> int:
        first, last = self.partition.first, self.partition.first + self.partition.rows
        return max(min(self.end, last) - max(self.begin, first), 0)

    def read(self, columns: Sequence[str] = tuple(LINE.names)) -> pa.Table:
        options = pa.ipc.IpcReadOptions(included_fields=[LINE.get_field_index(name) for name in columns])
        with pa.OSFile(str(self.partition.path)) as file:
            table = pa.ipc.open_file(file, options=options).read_all()
        return table.slice(max(self.begin - self.partition.first, 0), self.rows)


def write_partitions(tables: Iterable[pa.Table], rows: int, folder: Path, name: str) -> list[Partition]:
    """Writes the impressions of one raw file to ``folder``, ``rows`` at a time."""
    written: list[Partition] = []
    writer, held = None, 0
    try:
        for table in tables:
            while table.num_rows:
                if writer is None:
                    path = folder / f"{name}-{len(written)}.arrow"
                    writer, held = pa.ipc.new_file(str(path), LINE, options=_OPTIONS), 0
                part = table.slice(0, rows - held)
                writer.write_table(part)
                table, held = table.slice(part.num_rows), held + part.num_rows
                if held == rows:
                    writer.close()
                    writer, written = None, [*written, Partition(path, rows * len(written), held)]
    finally:
        if writer is not None:
            writer.close()
    return written if writer is None else [*written, Partition(path, rows * len(written), held)]
