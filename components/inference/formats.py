"""Files of rows as record batches, read and written in streams: parquet, and CSV and JSON lines, plain or gzipped."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from components.datasets.raw_rows import SEPARATOR
from components.errors import KfrecError
from components.storage.packed import parquet_batches
from components.workflows.csv_records import LONGEST_RECORD, LineCounter, require_closed_quotes
from components.workflows.quarantine import ARRAY
from components.workflows.text_blocks import LONGEST_LINE, MIB, require_bounded, require_text
from components.workflows.values import array_of

PARQUET, CSV, JSON = "parquet", "csv", "json"
_SUFFIXES = {
    ".parquet": PARQUET, ".csv": CSV, ".csv.gz": CSV, ".jsonl": JSON, ".jsonl.gz": JSON, ".ndjson": JSON,
}  # fmt: skip
_BLOCK = 4 << 20
# Bytes of a batch: rows of long texts become hundreds of samples each.
_LARGEST = 8 << 20


@dataclass(frozen=True)
class RowsFile:
    """A file of rows.

    Attributes:
        format: one of PARQUET, CSV and JSON.
        is_packed: whether it is gzipped.
    """

    path: Path
    format: str
    is_packed: bool

    def batches(self, rows: int) -> Iterator[pa.RecordBatch]:
        """Streams the rows.

        Args:
            rows: largest number of rows of a batch; large rows make smaller ones.

        Raises:
            KfrecError: it has another format, or is damaged.
        """
        read = {PARQUET: _parquet, CSV: _csv, JSON: _json}[self.format]
        try:
            for batch in read(self, rows):
                for start in range(0, len(batch), rows):
                    yield from _bounded(batch.slice(start, rows))
        except (pa.ArrowException, zlib.error, EOFError, gzip.BadGzipFile, UnicodeDecodeError) as error:
            raise KfrecError(f"{self.path}: {_reason(self, error)}") from None
        except OSError as error:
            if error.errno is not None:
                raise
            raise KfrecError(f"{self.path}: {_reason(self, error)}") from None

    @property
    def rows(self) -> int | None:
        """The number of rows, None if the format does not say."""
        if self.format != PARQUET:
            return None
        try:
            return int(pq.read_metadata(self.path).num_rows)
        except (pa.ArrowException, OSError) as error:
            raise KfrecError(f"{self.path}: {_reason(self, error)}") from None


def rows_file(path: Path) -> RowsFile:
    """The file at a path, with the format of its suffix.

    Raises:
        KfrecError: the suffix is unknown.
    """
    suffix = format_of(str(path))
    return RowsFile(path, _SUFFIXES[suffix], suffix.endswith(".gz"))


def format_of(name: str) -> str:
    """The format suffix of a file name.

    Raises:
        KfrecError: there is none.
    """
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if name.lower().endswith(suffix):
            return suffix
    raise KfrecError(f"{name}: unknown format; give a file that ends in {', '.join(_SUFFIXES)}")


def has_format(name: str) -> bool:
    """Whether a file name has a format suffix."""
    return name.lower().endswith(tuple(_SUFFIXES))


def _reason(file: RowsFile, error: Exception) -> str:
    said = " ".join(str(error).split())[:200]
    if "utf8" in said.lower() or "utf-8" in said.lower():
        return "not UTF-8; convert it (iconv -f ENCODING -t UTF-8)"
    if "Empty CSV" in said:
        return "empty, or a quote in its first line is left open; give a file with a header and rows"
    return f"damaged, truncated or not {file.format} ({said}); get a good copy of it"


def _bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in parts of at most _LARGEST bytes, or of one row."""
    if batch.nbytes <= _LARGEST or len(batch) < 2:
        yield batch
        return
    half = len(batch) // 2
    yield from _bounded(batch.slice(0, half))
    yield from _bounded(batch.slice(half))


def _parquet(file: RowsFile, rows: int) -> Iterator[pa.RecordBatch]:
    _require_distinct(file, pq.read_schema(file.path).names)
    yield from parquet_batches(file.path, rows, str(file.path))


@contextmanager
def _opened(file: RowsFile) -> Iterator[Any]:
    with pa.OSFile(str(file.path)) as plain:
        if not file.is_packed:
            yield plain
            return
        with pa.CompressedInputStream(plain, "gzip") as stream:
            yield stream


def _require_text(file: RowsFile) -> None:
    with _opened(file) as stream:
        start = stream.read(16)
    require_text(str(file.path), start, f"give it the suffix of its format: {', '.join(_SUFFIXES)}")


def _require_distinct(file: RowsFile, names: Sequence[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise KfrecError(f"{file.path}: has two columns {twice!r}; rename one")


def _csv(file: RowsFile, rows: int) -> Iterator[pa.RecordBatch]:
    """All values as text, since types inferred from the first block need not fit the last."""
    parse = pa.csv.ParseOptions(newlines_in_values=True)
    _require_text(file)
    with _opened(file) as stream:
        names = pa.csv.open_csv(stream, pa.csv.ReadOptions(use_threads=False), parse).schema.names
    plain = [name.strip() for name in names]
    _require_distinct(file, plain)
    if len(names) == 1 and (other := next((each for each in ";\t|" if each in names[0]), "")):
        raise KfrecError(f"{file.path}: its values seem to be separated by {other!r}; separate them by commas")
    with _opened(file) as stream:
        counter, records = LineCounter(stream, str(file.path), LONGEST_LINE), 1
        for batch in pa.csv.open_csv(
            pa.PythonFile(counter, mode="r"),
            pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK),
            parse,
            pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        ):
            records += len(batch)
            yield batch.rename_columns(plain)
    if counter.may_be_open(records):
        remedy = "or give the rows as parquet or JSON lines"
        require_closed_quotes(str(file.path), lambda: _opened(file), ",", LONGEST_RECORD, remedy)


def _json(file: RowsFile, rows: int) -> Iterator[pa.RecordBatch]:
    _require_text(file)
    with _open_text(file.path, file.is_packed, "r") as lines:
        held: list[dict[str, Any]] = []
        size = 0
        bounded = iter(lambda: lines.readline(int(LONGEST_LINE * MIB) + 1), "")
        for number, line in enumerate(bounded, 1):
            require_bounded(str(file.path), number, len(line), LONGEST_LINE)
            if not line.strip():
                continue
            held.append(_row(file.path, number, line))
            size += len(line)
            if len(held) == rows or size >= _LARGEST:
                yield _batch(file.path, held, number)
                held, size = [], 0
        if held:
            yield _batch(file.path, held, number)


def _open_text(path: Path, is_packed: bool, mode: str) -> IO[str]:
    # A byte order mark at the beginning is no part of the text.
    encoding = "utf-8-sig" if mode == "r" else "utf-8"
    return gzip.open(path, f"{mode}t", encoding=encoding) if is_packed else path.open(mode, encoding=encoding)  # type: ignore[return-value]


def _row(path: Path, number: int, line: str) -> dict[str, Any]:
    line = line.removeprefix("\ufeff")
    if line.startswith("["):
        raise KfrecError(f"{path}: line {number} is {ARRAY}")
    try:
        row = json.loads(line, strict=False)
    except (ValueError, RecursionError) as error:
        remedy = "convert the file with jq -c ." if line.strip() == "{" else "correct it"
        raise KfrecError(f"{path}: line {number} is not JSON ({error}); {remedy}") from None
    if not isinstance(row, dict):
        raise KfrecError(f"{path}: line {number} is {line.strip()[:40]}, not an object with a value for each column")
    return row


def _batch(path: Path, rows: Sequence[dict[str, Any]], last: int) -> pa.RecordBatch:
    names = dict.fromkeys(name for row in rows for name in row)
    try:
        return pa.RecordBatch.from_pydict({name: array_of(name, [row.get(name) for row in rows]) for name in names})
    except KfrecError as error:
        raise KfrecError(f"{path}: in the {len(rows)} lines before line {last + 1}, {error}") from None


class RowsWriter(Protocol):
    """Takes rows, batch by batch."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes a batch."""


@contextmanager
def writing(path: Path, named: RowsFile) -> Iterator[RowsWriter]:
    """A writer of a new file.

    Args:
        named: the final file; gives the format, and the name in messages.
    """
    writer = _JsonWriter(path, named) if named.format == JSON else _ArrowWriter(path, named)
    try:
        yield writer
    finally:
        writer.close()


class _ArrowWriter:
    """Parquet or CSV; in CSV, lists are joined with the separator that the reader splits at."""

    def __init__(self, path: Path, named: RowsFile) -> None:
        self._named = named
        self._file: Any = pa.OSFile(str(path), "wb")
        self._stream = pa.CompressedOutputStream(self._file, "gzip") if named.is_packed else self._file
        self._writer: pq.ParquetWriter | pa.csv.CSVWriter | None = None
        self._schema: pa.Schema | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        names = batch.schema.names
        flat = pa.RecordBatch.from_arrays([self._flat(name, batch.column(name)) for name in names], names=names)
        if self._writer is None:
            self._schema = flat.schema
            make = pq.ParquetWriter if self._named.format == PARQUET else pa.csv.CSVWriter
            self._writer = make(self._stream, flat.schema)
        self._writer.write_batch(_cast_to_first(flat, self._schema, self._named.path))

    def _flat(self, name: str, column: pa.Array) -> pa.Array:
        if self._named.format == PARQUET or not pa.types.is_nested(column.type):
            return column
        try:
            return pc.binary_join(column.cast(pa.list_(pa.string())), SEPARATOR)
        except pa.ArrowException:
            raise KfrecError(
                f"{self._named.path}: CSV cannot hold column {name}, of the type {column.type}; give an --output "
                "that ends in .parquet or .jsonl"
            ) from None

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        if self._named.is_packed:
            self._stream.close()
        self._file.close()


class _JsonWriter:
    def __init__(self, path: Path, named: RowsFile) -> None:
        self._file = _open_text(path, named.is_packed, "w")

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.writelines(
            json.dumps(row, ensure_ascii=False, default=str, separators=(",", ":")) + "\n" for row in batch.to_pylist()
        )

    def close(self) -> None:
        self._file.close()


def _cast_to_first(batch: pa.RecordBatch, schema: pa.Schema | None, path: Path) -> pa.RecordBatch:
    """Casts a batch to the columns and types of the first one, which the format requires throughout."""
    if schema is None or batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        if field.name not in batch.schema.names:
            columns.append(pa.nulls(len(batch), field.type))
            continue
        try:
            columns.append(batch.column(field.name).cast(field.type))
        except pa.ArrowException:
            kind = batch.schema.field(field.name).type
            raise KfrecError(
                f"{path}: column {field.name} is first of the type {field.type} and later of {kind}; give an --output "
                "that ends in .jsonl, or the column one type"
            ) from None
    for name in batch.schema.names:
        if name not in schema.names:
            raise KfrecError(
                f"{path}: column {name} begins only after the first rows; give an --output that ends in .jsonl, or "
                "the column in every row"
            )
    return pa.RecordBatch.from_arrays(columns, schema=schema)
