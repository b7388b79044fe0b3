"""Tables as record batches: CSV, plain, gzip or in a zip, and parquet."""

from __future__ import annotations

import codecs
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.progress import warn
from components.storage.packed import LONGEST_LINE, parquet_batches
from components.workflows.csv_records import ESCAPE, LONGEST_RECORD, LineCounter, require_closed_quotes
from components.workflows.partitions import partition_of
from components.workflows.quarantine import BadLine
from components.workflows.text_blocks import require_text
from components.workflows.values import plain_type

# In place of a column's name: every other one.
EVERY_OTHER = "*"
# Of MovieLens; a delimiter is one character.
LONG_DELIMITER = "::"
WITHOUT_LONG_DELIMITER = f"put tabs in their place (sed 's/{LONG_DELIMITER}/\\t/g') and state those as the delimiter"
_DELIMITERS = ",;\t|"
_BLOCK = 8 << 20
_BATCH = 65_536
_START = 1 << 16
_SHOWN = 3
_TABLES = (".csv", ".tsv", ".tab", ".data", ".dat", ".test")


@dataclass(frozen=True)
class Layout:
    """How tables are written, and which of their columns are read.

    Attributes:
        names: of the columns of CSV without a header; else empty.
        read: columns that are read, each once.
        format: "auto" goes by the name of a file.
        quoting: "double", "backslash" or "none", of CSV.
        longest_record: lines that a record of CSV may span.
        drop: columns that are not; EVERY_OTHER stands for all but those that are read.
    """

    delimiter: str
    names: tuple[str, ...]
    read: tuple[str, ...]
    format: str = "auto"
    quoting: str = "double"
    longest_record: int = LONGEST_RECORD
    drop: tuple[str, ...] = (EVERY_OTHER,)


@dataclass(frozen=True)
class Stated:
    """Where a layout is stated, for messages.

    Attributes:
        place: the file, or the parameters.
        quotes: how quotes that are characters, or longer records, are stated.
        header: how the columns of files without a header are named.
    """

    place: str
    quotes: str
    header: str


@dataclass
class Batch:
    """Rows of a table.

    Attributes:
        lines: int64, the number of each row from 1, counting the header and rows in quotes as one each.
        bad: rows before the last one with too many or too few values.
        consumed: bytes of the file read since the last batch.
    """

    rows: pa.RecordBatch
    lines: np.ndarray
    bad: list[BadLine] = field(default_factory=list)
    consumed: int = 0


def batches(path: Path, layout: Layout, stated: Stated, longest_line: float = LONGEST_LINE) -> Iterator[Batch]:
    """Streams a table.

    Args:
        longest_line: longest accepted line of CSV, in MiB.

    Raises:
        KfrecError: it is damaged, not UTF-8, or its columns are not those of the layout.
    """
    with _explained(path, layout):
        if is_parquet(path, layout):
            yield from _parquet(path, layout, stated)
        else:
            yield from _csv(path, layout, stated, longest_line)


def _partition_columns(path: Path, names: Sequence[str]) -> dict[str, str | None]:
    """The columns that folders give and the table has not itself."""
    return {name: value for name, value in partition_of(path).items() if name not in names}


def _with_partition(rows: pa.RecordBatch, given: Mapping[str, str | None], layout: Layout) -> pa.RecordBatch:
    """The columns that are read, those of the folders among them."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns |= {name: pa.array([value] * len(rows), pa.string()) for name, value in given.items()}
    return pa.RecordBatch.from_arrays([columns[name] for name in layout.read], names=list(layout.read))


@contextmanager
def _explained(path: Path, layout: Layout) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise KfrecError(f"{path}: {_reason(path, layout, error)}") from None


def columns_of(path: Path, layout: Layout, stated: Stated) -> list[str]:
    """The names of a table's columns.

    Raises:
        KfrecError: it is damaged, or not UTF-8.
    """
    with _explained(path, layout):
        if is_parquet(path, layout):
            with pq.ParquetFile(path) as file:
                names = list(file.schema_arrow.names)
                return [*names, *_partition_columns(path, names)]
        for open_text in _texts(path):
            _require_text(path, open_text)
            names = [name.strip() for name in layout.names or _header(open_text, layout)]
            return [*names, *_partition_columns(path, names)]
    return []


def is_empty(path: Path) -> bool:
    """Whether a table has neither a header nor rows, packed or not.

    Raises:
        KfrecError: it is damaged.
    """
    if not path.stat().st_size or path.suffix.lower() == ".parquet":
        return not path.stat().st_size
    with _explained(path, Layout(",", (), ())):
        for open_text in _texts(path):
            with open_text() as (stream, _):
                if stream.read(_START).strip():
                    return False
    return True


def warn_of_empty(paths: Sequence[Path], count: int) -> None:
    """Warns of tables without rows.

    Args:
        count: of all tables.
    """
    if paths:
        names = ", ".join(path.name for path in paths[:_SHOWN])
        more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        warn("preprocess", "empty files", f"{len(paths)} of {count} files have no rows: {names}{more}")


def delimiter_of(path: Path, stated: Stated) -> str:
    """The character that divides the first line of CSV most often.

    Raises:
        KfrecError: it is damaged, or not UTF-8.
    """
    first = (columns_of(path, Layout("\1", (), ()), stated) or [""])[0]
    best = max(first.count(each) for each in _DELIMITERS)
    return next(each for each in _DELIMITERS if first.count(each) == best)


def _reason(path: Path, layout: Layout, error: Exception) -> str:
    said = " ".join(str(error).split())
    if "utf8" in said.lower() or "utf-8" in said.lower():
        return "not UTF-8; convert it (iconv -f ENCODING -t UTF-8) and run download again"
    if "Empty CSV" in said:
        is_open = ", or a quote in its first line is left open" if path.stat().st_size else ""
        return f"empty{is_open}; give a table with a row for each sample"
    kind = "parquet" if is_parquet(path, layout) else {".gz": "gzip", ".zip": "zip"}.get(path.suffix.lower(), "CSV")
    return f"damaged, truncated or not a {kind} file ({said}); get a good copy of it"


def _parquet(path: Path, layout: Layout, stated: Stated) -> Iterator[Batch]:
    metadata, names = pq.read_metadata(path), pq.read_schema(path).names
    given = _partition_columns(path, names)
    _check_names(path, [*names, *given], layout, stated)
    size, first = path.stat().st_size, 1
    for rows in parquet_batches(path, _BATCH, str(path), [name for name in layout.read if name not in given]):
        share = size * len(rows) // max(metadata.num_rows, 1)
        plain = _with_partition(_plain_types(path, rows), given, layout)
        yield Batch(plain, np.arange(first, first + len(rows)), [], share)
        first += len(rows)


def _plain_types(path: Path, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of the types that Arrow's functions take.

    Raises:
        KfrecError: bytes are not UTF-8.
    """
    try:
        columns = [plain_type(name, column) for name, column in zip(rows.schema.names, rows.columns, strict=True)]
    except KfrecError as error:
        raise KfrecError(f"{path}: {error}") from None
    return pa.RecordBatch.from_arrays(columns, names=rows.schema.names)


def _csv(path: Path, layout: Layout, stated: Stated, longest_line: float) -> Iterator[Batch]:
    for open_text in _texts(path):
        _require_text(path, open_text)
        header = list(layout.names) or _header(open_text, layout)
        names = [name.strip() for name in header]
        given = _partition_columns(path, names)
        _check_names(path, [*names, *given], layout, stated)
        wanted = {header[names.index(name)]: name for name in layout.read if name not in given}
        invalid: list[Any] = []

        def refuse(row: Any, invalid: list[Any] = invalid) -> str:
            invalid.append(row)
            return "skip"

        with open_text() as (stream, tell):
            counter = LineCounter(stream, str(path), longest_line)
            reader = pa.csv.open_csv(
                pa.PythonFile(counter, mode="r"),
                # Arrow numbers lines in order on a single thread only.
                pa.csv.ReadOptions(use_threads=False, block_size=_BLOCK, column_names=list(layout.names) or None),
                _parse_options(layout, refuse),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(wanted, pa.string()),
                    include_columns=list(wanted),
                    strings_can_be_null=False,
                ),
            )
            line, done = 1 if layout.names else 2, 0
            for rows in reader:
                bad = _up_to(line + len(rows), invalid)
                numbers = np.arange(line, line + len(rows) + len(bad))
                line += len(numbers)
                lines = np.setdiff1d(numbers, [row.number for row in bad])
                renamed = pa.RecordBatch.from_arrays(rows.columns, names=list(wanted.values()))
                yield Batch(_with_partition(renamed, given, layout), lines, _bad_lines(bad, len(header)), tell() - done)
                done = tell()
            if invalid:
                yield Batch(_nothing(layout.read), np.zeros(0, np.int64), _bad_lines(invalid, len(header)))
        if layout.quoting != "none" and counter.may_be_open(line - 1 + len(invalid)):
            require_closed_quotes(
                str(path),
                partial(_stream_of, open_text),
                layout.delimiter,
                layout.longest_record,
                stated.quotes,
                _escape(layout),
            )


def _require_text(path: Path, open_text: Callable[[], Any]) -> None:
    with open_text() as (stream, _):
        start = stream.read(_START)
    require_text(str(path), start, "convert it to CSV or parquet")
    # Arrow reports invalid UTF-8 only after parsing a block.
    codecs.getincrementaldecoder("utf-8")().decode(start)


def _nothing(names: Iterable[str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array([], pa.string()) for name in names})


def _up_to(end: int, invalid: list[Any]) -> list[Any]:
    """Takes the invalid rows before row ``end``; each moves ``end`` on by one. The others belong to later blocks."""
    taken: list[Any] = []
    while invalid and invalid[0].number < end + len(taken):
        taken.append(invalid.pop(0))
    return taken


def _bad_lines(rows: Sequence[Any], columns: int) -> list[BadLine]:
    """The lines of records with too many or too few values; one with a quote left open has several."""
    found = []
    for row in rows:
        has = f"{row.actual_columns} value{'' if row.actual_columns == 1 else 's'}, not {columns}"
        lines = row.text.rstrip("\r\n").split("\n")
        has += f", over {len(lines)} lines: a quote in it is probably left open" if len(lines) > 1 else ""
        found += [BadLine(row.number, has, line.encode()) for line in lines]
    return found


@contextmanager
def _stream_of(open_text: Callable[[], Any]) -> Iterator[Any]:
    with open_text() as (stream, _):
        yield stream


def _parse_options(layout: Layout, refuse: Callable[[Any], str]) -> pa.csv.ParseOptions:
    return pa.csv.ParseOptions(
        delimiter=layout.delimiter,
        quote_char='"' if layout.quoting != "none" else False,
        double_quote=not _escape(layout),
        escape_char=_escape(layout) or False,
        newlines_in_values=layout.quoting != "none",
        invalid_row_handler=refuse,
    )


def _escape(layout: Layout) -> str:
    """What stands before a quote in quotes; empty is another quote."""
    return ESCAPE if layout.quoting == "backslash" else ""


def _header(open_text: Callable[[], Any], layout: Layout) -> list[str]:
    """The names in the first line.

    Arrow parses a whole block for them and reads 32 ahead: of large ones, all of a day's table.
    """
    try:
        return _names(open_text, layout, _START)
    except pa.ArrowInvalid:  # a record is longer than the block
        return _names(open_text, layout, _BLOCK)


def _names(open_text: Callable[[], Any], layout: Layout, block: int) -> list[str]:
    options = pa.csv.ReadOptions(use_threads=False, block_size=block)
    with open_text() as (stream, _):
        return list(pa.csv.open_csv(stream, options, _parse_options(layout, lambda row: "skip")).schema.names)


def _texts(path: Path) -> Iterator[Callable[[], Any]]:
    """Functions that open the CSV files in a file, each as a stream and a counter of the bytes read."""
    if path.suffix.lower() != ".zip":
        yield partial(_plain, path)
        return
    with zipfile.ZipFile(path) as archive:
        members = [info.filename for info in archive.infolist() if not info.is_dir()]
        members = [name for name in members if not (name.startswith("__MACOSX/") or Path(name).name.startswith("."))]
        # An archive may hold a README beside its tables.
        members = [name for name in members if name.lower().endswith(_TABLES)] or members
    if not members:
        raise KfrecError(f"{path}: holds no file; give a zip with a CSV file")
    for member in members:
        yield partial(_member, path, member)


@contextmanager
def _plain(path: Path) -> Iterator[tuple[Any, Callable[[], int]]]:
    with pa.OSFile(str(path)) as file, ExitStack() as stack:
        stream = stack.enter_context(pa.CompressedInputStream(file, "gzip")) if path.suffix.lower() == ".gz" else file
        yield stream, file.tell


@contextmanager
def _member(path: Path, member: str) -> Iterator[tuple[Any, Callable[[], int]]]:
    with path.open("rb") as file, zipfile.ZipFile(file) as archive, archive.open(member) as stream:
        yield stream, file.tell


def _check_names(path: Path, names: Sequence[str], layout: Layout, stated: Stated) -> None:
    """Compares the columns of a table with those of the layout.

    Raises:
        KfrecError: a name is duplicated, missing, or has no role.
    """
    if not layout.names and sum(_is_number(name) for name in names) > len(names) / 2:
        raise KfrecError(
            f"{path}: its first line has numbers in place of names ({', '.join(names[:4])}); {stated.header}"
        )
    if broken := next((name for name in names if "\n" in name or "\r" in name), ""):
        first = broken.splitlines()[0]
        raise KfrecError(
            f"{path}: a quote in the first line, before {first!r}, is left open; close it, {stated.quotes}"
        )
    has = ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    for name in names:
        # Spreadsheets leave several columns without a name behind the last one.
        if names.count(name) > 1 and (name in layout.read or EVERY_OTHER not in layout.drop):
            hint = _hint(names, layout, stated) if _is_number(name) else ""
            raise KfrecError(f"{path}: has two columns {name!r}; rename one{hint}")
    for name in (*layout.read, *(column for column in layout.drop if column != EVERY_OTHER)):
        if name not in names:
            hint = _hint(names, layout, stated)
            raise KfrecError(f"{path}: has no column {name!r}, which {stated.place} names; it has {has}{hint}")
    known = {*layout.read, *layout.drop}
    without = [name for name in names if name not in known]
    if without and EVERY_OTHER not in layout.drop:
        raise KfrecError(
            f"{path}: column {without[0]!r} has no role in {stated.place}; give it one under columns, or list it under "
            "drop ('*' drops every other one)"
        )


def _hint(names: Sequence[str], layout: Layout, stated: Stated) -> str:
    """What a wrong first line of CSV is probably due to."""
    if len(names) == 1 and LONG_DELIMITER in names[0]:
        return f"; the values seem to be separated by {LONG_DELIMITER!r}: {WITHOUT_LONG_DELIMITER}"
    other = next((each for each in ";\t|," if len(names) == 1 and each in names[0] and each != layout.delimiter), "")
    if other:
        return f"; the values seem to be separated by {other!r}: state it as the delimiter"
    return f"; if its first line is a row, {stated.header}" if any(map(_is_number, names)) else ""


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True


def is_parquet(path: Path, layout: Layout) -> bool:
    """Whether a table is parquet rather than CSV."""
    return layout.format == "parquet" or (layout.format == "auto" and path.suffix.lower() == ".parquet")
