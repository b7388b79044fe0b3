"""Text files, plain or gzip, streamed in blocks of whole lines and parsed to tables."""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from components.errors import KfrecError
from components.progress import progress
from components.storage.packed import LONGEST_LINE
from components.workflows.quarantine import BadLine, Quarantine

if TYPE_CHECKING:
    from components.checks.tables import TableProfiler

T = TypeVar("T")

BLOCK_BYTES = 8 << 20
MIB = 1 << 20
# File formats by their first bytes, since names are wrong at times.
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
# Byte order marks, the longer ones first: that of UTF-16 begins that of UTF-32.
_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
# Positions of zero bytes in a text that begins with two ASCII characters, as JSON does (RFC 4627, section 3).
_ZEROS: dict[tuple[bool, ...], str] = {
    (False, True, True, True): "UTF-32LE",
    (True, True, True, False): "UTF-32BE",
    (False, True, False, True): "UTF-16LE",
    (True, False, True, False): "UTF-16BE",
}


@dataclass(frozen=True)
class Block:
    """Whole lines of a file.

    Attributes:
        text: the lines, each but possibly the file's last one ended by a newline.
        first_line: number of the first line in the file, from 1.
        consumed: bytes of the file (compressed, where it is) read since the last block.
    """

    text: bytes
    first_line: int
    consumed: int

    def parsed(self, parse: Callable[[bytes], T]) -> tuple[list[T], list[BadLine]]:
        """What ``parse`` makes of each line that is not blank, and the lines for which it raises ValueError."""
        rows: list[T] = []
        bad: list[BadLine] = []
        for number, line in enumerate(io.BytesIO(self.text), start=self.first_line):
            if line.isspace():
                continue
            try:
                rows.append(parse(line))
            except ValueError as error:
                bad.append(BadLine(number, str(error), line.rstrip(b"\r\n")))
        return rows, bad


def table_of(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """A table of rows in Python's types."""
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    return pa.table([pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)], schema=schema)


def blocks(path: Path, block_bytes: int = BLOCK_BYTES, longest_line: float = LONGEST_LINE) -> Iterator[Block]:
    """Streams a file; decompresses the next block while the current one is processed.

    Args:
        block_bytes: bytes to read at a time.
        longest_line: longest accepted line, in MiB.

    Raises:
        KfrecError: the gzip stream is truncated or damaged, a line is longer, or the file is UTF-16 or UTF-32.
    """
    with pa.OSFile(str(path)) as file, _decompressed(path, file) as stream:
        require_text(str(path), _read(path, stream.read, 16), "convert it to lines of text")
    with (
        ThreadPoolExecutor(1, thread_name_prefix="raw-reader") as reader,
        closing(_blocks(path, block_bytes, longest_line)) as source,
    ):
        coming = reader.submit(next, source, None)
        while (block := coming.result()) is not None:
            coming = reader.submit(next, source, None)
            yield block


def _blocks(path: Path, block_bytes: int, longest_line: float) -> Generator[Block, None, None]:
    first_line, done = 1, 0
    with pa.OSFile(str(path)) as file, _decompressed(path, file) as stream:
        rest = b""
        while chunk := _read(path, stream.read, block_bytes):
            if not done and not rest:
                chunk = chunk.removeprefix(codecs.BOM_UTF8)
            end = chunk.rfind(b"\n") + 1
            if not end:
                rest += chunk
                require_bounded(str(path), first_line, len(rest), longest_line)
                continue
            text, rest = rest + chunk[:end], chunk[end:]
            yield Block(text, first_line, file.tell() - done)
            first_line, done = first_line + text.count(b"\n"), file.tell()
        if rest:
            yield Block(rest, first_line, file.tell() - done)


def require_bounded(place: str, line: int, size: int, longest: float) -> None:
    """Refuses a line of more than ``longest`` MiB, of which ``size`` bytes were read."""
    if size > longest * MIB:
        raise KfrecError(f"{place}: line {line} is longer than {longest:g} MiB; end its lines, or raise longest_line")


def require_text(place: str, start: bytes, remedy: str) -> None:
    """Refuses a file that is no text, or in UTF-16 or UTF-32.

    Args:
        place: the file, for messages.
        start: its first bytes.
    """
    if what := next((what for magic, what in _STARTS.items() if start.startswith(magic)), ""):
        raise KfrecError(f"{place}: is {what}, whatever its name says; {remedy}")
    encoding = next((name for mark, name in _MARKS if start.startswith(mark)), None)
    encoding = encoding or _ZEROS.get(tuple(byte == 0 for byte in start[:4]))
    if encoding:
        raise KfrecError(f"{place}: is {encoding}, not UTF-8; convert it (iconv -f {encoding} -t UTF-8) and run again")


def _decompressed(path: Path, file: pa.NativeFile) -> pa.NativeFile:
    """Arrow's decompression, unlike Python's, releases the GIL for a whole block."""
    return pa.CompressedInputStream(file, "gzip") if path.suffix.lower() == ".gz" else file


def _read(path: Path, read: Callable[[int], bytes], count: int) -> bytes:
    try:
        return read(count)
    except (pa.ArrowException, OSError) as error:
        raise KfrecError(f"{path}: truncated or damaged gzip file ({error}); download it again") from None


Parse = Callable[[Block], tuple[pa.Table, list[BadLine]]]


@dataclass
class RawReader:
    """Reads raw files.

    Attributes:
        quarantine: folder for the side files of bad lines.
        malformed_limit: largest accepted share of bad lines in a file.
        longest_line: longest accepted line, in MiB.
        share: fraction of the files' bytes read, from 0 to 1.
    """

    quarantine: Path
    malformed_limit: float
    longest_line: float = LONGEST_LINE
    malformed_lines: int = 0
    share: float = 0.0

    def tables(
        self, files: Sequence[Path], parse: Parse, what: str, label: str, profiler: TableProfiler | None = None
    ) -> Iterator[pa.Table]:
        """Yields the tables of ``parse`` for the blocks of ``files``.

        Args:
            files: raw files, in the order to read them in.
            parse: converts a block to one row per line, and returns the malformed lines.
            what: what a line should be, for messages.

        Raises:
            KfrecError: a damaged gzip file, a file that ends in the middle of a line, or more bad lines in a file than
                the limit allows.
        """
        size, consumed = sum(path.stat().st_size for path in files), 0
        with progress(label, size, "bytes") as bar:
            for path in files:
                refused, lines = Quarantine(path, self.quarantine, self.malformed_limit, what), 0
                try:
                    for block in blocks(path, longest_line=self.longest_line):
                        table, bad = parse(block)
                        refused.add(bad)
                        _require_whole(path, block, bad, refused.first)
                        lines += table.num_rows + len(bad)
                        consumed += block.consumed
                        self.share = consumed / size
                        if profiler is not None:
                            profiler.add(table)
                            profiler.malformed += len(bad)
                        yield table
                        bar.advance(block.consumed)
                finally:
                    refused.close()
                refused.judge(lines)
                self.malformed_lines += refused.count


def _require_whole(path: Path, block: Block, bad: Sequence[BadLine], first: BadLine | None) -> None:
    """Rejects a file whose last line is malformed and has no end: the rest of the file is missing too."""
    if (
        bad
        and first is not None
        and first.number > 1  # else it has another format
        and not block.text.endswith(b"\n")
        and bad[-1].number == block.first_line + block.text.count(b"\n")
    ):
        raise KfrecError(
            f"{path}: ends in the middle of line {bad[-1].number}, {bad[-1].text[:100]!r}; get a complete copy of it"
        )
