"""File formats by their first bytes, since names are wrong at times."""

from __future__ import annotations

import codecs

from components.errors import KfrecError

_STARTS = {
    b"PK\x03\x04": "a zip archive, such as Excel's",
    b"\x1f\x8b": "gzip",
    b"PAR1": "parquet",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"ARROW1": "Arrow's own format (Feather)",
    b"SQLite format 3": "a database of SQLite",
    b"\x89HDF": "HDF5",
    b"\xd0\xcf\x11\xe0": "an old Excel file",
}


def format_of_start(start: bytes) -> str:
    """The format of a file that begins with these bytes and is no text; empty if unknown."""
    return next((what for magic, what in _STARTS.items() if start.startswith(magic)), "")


def require_text(place: str, start: bytes, remedy: str) -> None:
    """Refuses a file that is no text, or one of UTF-16.

    Args:
        place: the file, for messages.
        start: its first bytes.
        remedy: what to do with a file in another format.

    Raises:
        KfrecError: it is one.
    """
    if what := format_of_start(start):
        raise KfrecError(f"{place}: is {what}, whatever its name says; {remedy}")
    is_wide = len(start) > 7 and (not any(start[0:8:2]) or not any(start[1:8:2]))
    if is_wide or start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise KfrecError(f"{place}: is UTF-16, not UTF-8; convert it (iconv -f UTF-16 -t UTF-8) and run again")
