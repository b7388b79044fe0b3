"""Counts rows of files that cannot be counted as a stream: a .zip of text files, or a .parquet file."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError

_BLOCK = 1 << 20


def is_packed(name: str) -> bool:
    """Whether the rows of a file of that name need ``packed_rows``."""
    return name.endswith((".zip", ".parquet"))


def packed_rows(path: Path, label: str) -> int:
    """The rows of a parquet file, or the lines of all files in a zip, which are read to their ends.

    Args:
        path: the file.
        label: its name for messages.

    Raises:
        KfrecError: it is damaged or truncated.
    """
    try:
        if label.endswith(".parquet"):
            return int(pq.read_metadata(path).num_rows)
        with zipfile.ZipFile(path) as archive:
            return sum(_lines(archive, name) for name in archive.namelist())
    except (pa.ArrowException, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise KfrecError(f"{label}: damaged or truncated ({reason}); get a good copy of it and run again") from None


def _lines(archive: zipfile.ZipFile, name: str) -> int:
    lines, last = 0, b"\n"
    with archive.open(name) as file:
        while block := file.read(_BLOCK):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last != b"\n")
