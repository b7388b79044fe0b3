"""Checks that a fetched file is complete."""

from __future__ import annotations

import zlib
from pathlib import Path

from components.errors import KfrecError
from components.progress import progress
from components.storage.packed import is_packed, packed_rows

_BLOCK = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS
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
    lines, last = 0, b"\n"
    with path.open("rb") as file, progress(f"checking {Path(label).name}", path.stat().st_size, "bytes") as bar:
        decoder = None
        ended = False
        while block := file.read(_BLOCK):
            bar.advance(len(block))
            if not label.endswith(".gz"):
                lines, last, ended = lines + block.count(b"\n"), block[-1:], True
                continue
            while block:
                if decoder is None:
                    # Zeros may pad the end; other bytes must be another member.
                    block = block.lstrip(b"\0") if ended else block
                    if not block:
                        break
                    decoder = zlib.decompressobj(_GZIP)
                try:
                    text = decoder.decompress(block, _BLOCK)
                except zlib.error as error:
                    raise KfrecError(_told(label, block, ended, error)) from error
                lines, last = lines + text.count(b"\n"), text[-1:] or last
                block = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
                if decoder.eof:
                    decoder, ended = None, True
        if label.endswith(".gz") and (decoder is not None or not ended):
            raise KfrecError(
                f"{label}: the gzip file is truncated after {path.stat().st_size} bytes; get a complete copy of it "
                f"(gzip -t {Path(label).name} finds out) and run again"
            )
    return lines + (last != b"\n")


def _told(label: str, block: bytes, ended: bool, error: zlib.error) -> str:
    if not ended and not block.startswith(_MAGIC):
        return f"{label}: not a gzip file, or damaged ({error}); get a good copy of it and run again"
    return f"{label}: the gzip file is damaged ({error}); get a good copy of it and run again"
