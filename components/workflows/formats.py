"""File formats by their first bytes, since names are wrong at times."""

from __future__ import annotations

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
