"""Rows of files that cannot be read as a stream: a .zip of text files, or a .parquet file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
    source: Path | bytes, rows: int, label: str, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Streams a parquet file, whose dictionary may hold a long text once for many values.

    Args:
        source: the file, or its content.
        rows: largest number of rows of a batch; rows of long texts make smaller ones.
        label: its name for messages.
        columns: those to read; None reads all.

    Raises:
        KfrecError: lists or texts would take far more memory than the file has bytes, or the texts of a row more than
            LONGEST_LINE.
        OSError, pyarrow.ArrowException: as of pyarrow.parquet.ParquetFile.
    """
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    with _opened(source) as file:
        require_bounded_lists(file.metadata, size, label)
        types = dict(zip(file.schema_arrow.names, file.schema_arrow.types, strict=True))
        texts = _texts(file, columns)
    if _largest_batch(source, texts, rows) <= _FREE:
        texts = {}  # decoding a dictionary's texts at once is several times as fast
    with _opened(source, read_dictionary=list(texts)) as file:
        total = 0
        for batch in file.iter_batches(rows, columns=None if columns is None else list(columns)):
            total += sum(map(_text_bytes, batch.columns))
            if total > _BYTES * size + _FREE:
                raise KfrecError(f"{label}: has {size:,} bytes and texts of more than {total:,}, which no data have")
            for part in _of_bounded_texts(batch, label):
                names = part.schema.names
                plain = [column.cast(types[name]) for name, column in zip(names, part.columns, strict=True)]
                yield pa.RecordBatch.from_arrays(plain, names=names)


def _opened(source: Path | bytes, **options: Any) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(source) if isinstance(source, bytes) else source, **options)


def _texts(file: pq.ParquetFile, columns: Sequence[str] | None) -> dict[str, int | None]:
    """Paths of the texts of columns, however deep, and the number of their values; None of those with one a row."""
    found = dict[str, int | None]()
    groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
    for place in range(file.metadata.num_columns):
        leaf = file.schema.column(place)
        is_read = columns is None or any(f"{leaf.path}.".startswith(f"{name}.") for name in columns)
        if is_read and leaf.physical_type == "BYTE_ARRAY" and leaf.converted_type != "DECIMAL":
            values = sum(group.column(place).num_values for group in groups)
            found[leaf.path] = values if leaf.max_repetition_level else None
    return found


def _largest_batch(source: Path | bytes, texts: Mapping[str, int | None], rows: int) -> int:
    """An upper bound for the bytes of a batch's texts: dictionaries come with the first row of a row group."""
    longest = 0
    with _opened(source, read_dictionary=list(texts), buffer_size=_BLOCK) as file:
        for group in range(file.num_row_groups if texts else 0):
            for column in next(file.iter_batches(1, row_groups=[group], columns=list(texts)), ()):
                longest = max(longest, _longest(column))
    return longest * sum(rows if values is None else values for values in texts.values())


def _is_text(kind: pa.DataType) -> bool:
    of_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary)
    return any(is_one(kind) for is_one in of_text)


def _longest(column: pa.Array) -> int:
    lengths = (pc.max(pc.binary_length(leaf.dictionary)).as_py() or 0 for leaf in _leaves(column))
    return max(lengths, default=0)


def _leaves(column: pa.Array) -> Iterator[pa.DictionaryArray]:
    """The dictionaries of texts within a column."""
    if pa.types.is_dictionary(column.type):
        if _is_text(column.type.value_type):
            yield column
    elif pa.types.is_map(column.type):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _leaves(field)
    elif pa.types.is_nested(column.type):
        yield from _leaves(column.flatten())


def _text_bytes(column: pa.Array) -> int:
    """Bytes of all texts of a column whose texts are dictionaries."""
    total = 0
    for leaf in _leaves(column):
        lengths = pc.fill_null(pc.binary_length(leaf.dictionary), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        total += int(lengths[leaf.indices.drop_null().to_numpy(zero_copy_only=False)].sum())
    return total


def _of_bounded_texts(batch: pa.RecordBatch, label: str) -> Iterator[pa.RecordBatch]:
    """A batch in parts whose texts take at most LONGEST_LINE each."""
    if sum(map(_text_bytes, batch.columns)) <= LONGEST_LINE * (1 << 20):
        yield batch
        return
    if len(batch) == 1:
        raise KfrecError(f"{label}: the texts of a row are longer than {LONGEST_LINE:g} MiB; shorten them")
    for half in np.array_split(np.arange(len(batch)), 2):
        # A slice would be cast with all values of its lists.
        yield from _of_bounded_texts(batch.take(pa.array(half)), label)


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
