"""Rows of files that cannot be read as a stream: a .zip of text files, or a .parquet file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.errors import KfrecError

# Of a line, in MiB: a small gzip file may hold a line of gigabytes.
LONGEST_LINE = 64.0
_BLOCK, _ROWS = 1 << 20, 1 << 14
# Bytes that the values of lists may take in memory for each byte of a parquet file, beyond the free ones.
_BYTES, _FREE, _VALUE = 1000, 64 << 20, 8


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
            for batch in parquet_batches(path, _ROWS, label):
                yield list(map(repr, zip(*(column.to_pylist() for column in batch.columns), strict=True)))
            return
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                with archive.open(name) as text:
                    yield from lines(iter(lambda text=text: text.read(_BLOCK), b""), label)  # type: ignore[misc]


@contextmanager
def _explained(label: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise KfrecError(f"{label}: damaged or truncated ({reason}); get a good copy of it and run again") from None


def parquet_batches(
    path: Path, rows: int, label: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Streams a parquet file, whose dictionary may hold a long text once for many rows.

    Args:
        rows: largest number of rows of a batch; rows of long texts make smaller ones.
        label: its name for messages.
        columns: those to read; None reads all.

    Raises:
        KfrecError: lists or texts would take far more memory than the file has bytes, or the texts of a row more than
            LONGEST_LINE.
        OSError, pyarrow.ArrowException: as of pyarrow.parquet.ParquetFile.
    """
    schema, size = pq.read_schema(path), path.stat().st_size
    kinds = dict(zip(schema.names, schema.types, strict=True))
    texts = [name for name in kinds if _is_text(kinds[name]) and (columns is None or name in columns)]
    if _longest_shared(path, texts) * rows * len(texts) <= _FREE:
        texts = []  # decoding a dictionary's texts at once is several times as fast
    with pq.ParquetFile(path, read_dictionary=texts) as file:
        require_bounded_lists(file.metadata, size, label)
        total = 0
        for batch in file.iter_batches(rows, columns=None if columns is None else list(columns)):
            lengths = sum(map(_lengths, batch.columns), np.zeros(len(batch), np.int64))
            total += int(lengths.sum())
            if total > _BYTES * size + _FREE:
                raise KfrecError(f"{label}: has {size:,} bytes and texts of more than {total:,}, which no data have")
            for part in _of_bounded_texts(batch, lengths, label):
                plain = [
                    column.dictionary.take(column.indices) if name in texts else column
                    for name, column in zip(part.schema.names, part.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(plain, names=part.schema.names)


def _longest_shared(path: Path, texts: Sequence[str]) -> int:
    """Bytes of the longest text in the dictionaries of a parquet file, which come with the first row of a row group."""
    longest = 0
    if texts:
        with pq.ParquetFile(path, read_dictionary=texts, buffer_size=_BLOCK) as file:
            for group in range(file.num_row_groups):
                for column in next(file.iter_batches(1, row_groups=[group], columns=texts), ()):
                    longest = max(longest, pc.max(pc.binary_length(column.dictionary)).as_py() or 0)
    return longest


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _of_bounded_texts(batch: pa.RecordBatch, lengths: np.ndarray, label: str) -> Iterator[pa.RecordBatch]:
    """A batch in parts whose texts, of so many bytes a row, take at most LONGEST_LINE each."""
    ends = np.cumsum(lengths)
    first, done, limit = 0, 0, int(LONGEST_LINE * (1 << 20))
    while first < len(batch):
        last = int(np.searchsorted(ends, done + limit, "right"))
        if last == first:
            raise KfrecError(f"{label}: the texts of a row are longer than {LONGEST_LINE:g} MiB; shorten them")
        yield batch.slice(first, last - first)
        first, done = last, int(ends[last - 1])


def _lengths(column: pa.Array) -> np.ndarray:
    """Bytes of each text of a column that is a dictionary; 0 of others."""
    if not (pa.types.is_dictionary(column.type) and _is_text(column.type) and len(column.dictionary)):
        return np.zeros(len(column), np.int64)
    lengths = pc.fill_null(pc.binary_length(column.dictionary), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    used = np.append(lengths, 0)
    return used[pc.fill_null(column.indices.cast(pa.int64()), len(lengths)).to_numpy(zero_copy_only=False)]


def require_bounded_lists(metadata: pq.FileMetaData, size: int, label: str) -> None:
    """Refuses a small parquet file with lists that are large in memory; equal values compress to nothing.

    Args:
        size: of the file, in bytes.

    Raises:
        KfrecError: they would take far more memory than the file has bytes.
    """
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    values = sum(
        group.column(place).num_values
        for place in range(metadata.num_columns)
        if metadata.schema.column(place).max_repetition_level
        for group in groups
    )
    if values * _VALUE > _BYTES * size + _FREE:
        raise KfrecError(f"{label}: has {size:,} bytes and lists of {values:,} values, which no data have")


def lines(blocks: Iterable[bytes], label: str) -> Iterator[list[bytes]]:
    """The lines of a text, without their ends, in lists; the last one counts without an end, too.

    Raises:
        KfrecError: one is longer than LONGEST_LINE.
    """
    parts, size = list[bytes](), 0
    for block in blocks:
        end, *whole = block.split(b"\n")
        parts.append(end)
        size += len(end)
        if size > LONGEST_LINE * (1 << 20):
            raise KfrecError(f"{label}: a line is longer than {LONGEST_LINE:g} MiB; end its lines")
        if whole:
            *whole, rest = b"".join(parts), *whole
            yield [line.rstrip(b"\r") for line in whole]
            parts, size = [rest], len(rest)
    if rest := b"".join(parts):
        yield [rest]
