"""Checks that a fetched file is complete."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from components.errors import KfrecError
from components.progress import progress
from components.storage.packed import is_packed, packed_rows

_BLOCK = 1 << 20
_MAGIC = b"\x1f\x8b"


def count_lines(path: Path, label: str) -> int:
    """Reads a file to its end, decompressing a .gz or .zip, and returns how many lines, or rows of parquet, it has.

    Args:
        path: the file.
        label: its name for messages.

    Raises:
        KfrecError: it is not gzip data, damaged, or ends too early.
    """
    if is_packed(label):
        return packed_rows(path, label)
    lines, last, size = 0, b"\n", path.stat().st_size
    with path.open("rb") as file, progress(f"checking {Path(label).name}", size, "bytes") as bar:
        try:
            stream = gzip.GzipFile(fileobj=file) if label.lower().endswith(".gz") else file
            while block := stream.read(_BLOCK):
                lines, last = lines + block.count(b"\n"), block[-1:]
                bar.advance(file.tell() - bar.done)
            if stream is not file and not size:
                raise EOFError
        except EOFError:
            raise KfrecError(
                f"{label}: the gzip file is truncated after {size} bytes; get a complete copy of it "
                f"(gzip -t {Path(label).name} finds out) and run again"
            ) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            file.seek(0)
            what = "the gzip file is damaged" if file.read(2) == _MAGIC else "not a gzip file, or damaged"
            raise KfrecError(f"{label}: {what} ({error}); get a good copy of it and run again") from error
    return lines + (last != b"\n")
