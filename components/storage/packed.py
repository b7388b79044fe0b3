"""Rows of files that cannot be read as a stream: a .zip of text files, or a .parquet file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError

_BLOCK, _ROWS = 1 << 20, 1 << 14


def is_packed(name: str) -> bool:
    """Whether the rows of a file of that name need ``packed_rows``."""
    return name.lower().endswith((".zip", ".parquet"))


def packed_rows(path: Path, label: str) -> int:
    """The number of rows of a parquet file, or of lines of all files in a zip, which are read to their ends.

    Args:
        label: its name for messages.

    Raises:
        KfrecError: it is damaged or truncated.
    """
    if label.lower().endswith(".parquet"):
        with _explained(label):
            return int(pq.read_metadata(path).num_rows)
    return sum(map(len, read_packed(path, label)))


def read_packed(path: Path, label: str) -> Iterator[Sequence[Hashable]]:
    """The rows of a parquet file as text, or the lines of all files in a zip, in blocks.

    Args:
        label: its name for messages.

    Raises:
        KfrecError: it is damaged or truncated.
    """
    with _explained(label):
        if label.lower().endswith(".parquet"):
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(_ROWS):
                    yield list(map(repr, zip(*(column.to_pylist() for column in batch.columns), strict=True)))
            return
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as text:
                    yield from lines(iter(lambda text=text: text.read(_BLOCK), b""))  # type: ignore[misc]


@contextmanager
def _explained(label: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise KfrecError(f"{label}: damaged or truncated ({reason}); get a good copy of it and run again") from None


def lines(blocks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines of a text, without their ends, in lists; the last one counts without an end, too."""
    rest = b""
    for block in blocks:
        *whole, rest = (rest + block).split(b"\n")
        yield [line.rstrip(b"\r") for line in whole]
    if rest:
        yield [rest]
