"""The data versions under a prefix: one folder each, with a complete set of raw files.

Versions are compared by the hashes of their rows: a row has one hash in CSV, gzip, zip and parquet.
"""

from __future__ import annotations

import re
import tempfile
import zlib
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from components.datasets import RawContract
from components.datasets.definition import TABLES
from components.errors import KfrecError
from components.random_draws import GAMMA, mixed
from components.storage import Changed, Retry, Store, Unavailable, fetch_file, is_uri, open_store
from components.storage.packed import is_packed, lines, read_packed
from components.storage.store import Checksum
from components.workflows.tables import Layout, Stated, batches, columns_of, delimiter_of, is_parquet
from components.workflows.times import Times
from components.workflows.values import DEFAULT_MISSING, texts

_RETRY = Retry(5)
_BUCKETS = 64
_BLOCK = 1 << 20
_STATED = Stated("find", "", "")
# No name of a column: a number or a date.
_VALUE = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$|\d[-/.:]\d"
# The index of a DataFrame, which pandas writes beside the columns.
_INDEX = r"^$|^Unnamed: 0$|^__index_level_\d+__$"
# Integers that are exact as int64; ids with leading zeros are text.
_WHOLE = r"^-?(0|[1-9]\d{0,17})$"
_NUMBER = r"^[+-]?(\d+\.\d*|\.\d+|\d+(\.\d*)?[eE][+-]?\d+)$"
_DATE = r"^\d{4}[-/]\d{1,2}[-/]\d{1,2}([T ]|$)"
# Seconds since 1970 of 1985 to 2128, which no other unit reaches.
_FIRST, _LAST = 5 * 10**8, 5 * 10**9


@dataclass(frozen=True)
class DataVersion:
    """One version of the data.

    Attributes:
        files: names of those whose rows measure the amount of data.
        are_tables: whether these are tables of any type, whose rows are compared by content.
    """

    name: str
    uri: str
    files: tuple[str, ...]
    are_tables: bool


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts names with their numbers as numbers: v9 before v10, 2026-11-02 before 2026-11-10."""
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]


def until(versions: Sequence[DataVersion], last: str) -> list[DataVersion]:
    """The versions up to one, by the order of their names; all without a ``last``.

    Raises:
        KfrecError: all are later.
    """
    among = [version for version in versions if not last or natural_order(version.name) <= natural_order(last)]
    if not among:
        raise KfrecError(f"parameter data_until={last}: the oldest data version, {versions[0].uri}, is later")
    return among


def data_versions(prefix: str, contract: RawContract) -> tuple[list[DataVersion], list[str]]:
    """The versions of a data set under a prefix, oldest first, and a message for each skipped folder.

    Raises:
        KfrecError: the prefix is empty, there is no such place, it cannot be listed, or it holds no version.
    """
    if not prefix:
        raise KfrecError("parameter data_prefix is empty; give the folder or prefix with one folder per data version")
    store = open_store(prefix)
    versions, passed_over = [], []
    for name in sorted(_RETRY.call(store.uri, store.folders), key=natural_order):
        if name.startswith((".", "_")):
            continue
        uri = store.url(name)
        if is_uri(prefix) and "?" in name:
            passed_over.append(f"{uri}: skipped, it has a ? in its name; move it to a prefix without one")
            continue
        there = _names(open_store(uri))
        if lacking := contract.lacking(there):
            passed_over.append(f"{uri}: skipped, it has no {lacking.example}")
        else:
            kind = contract.kinds[0]
            versions.append(DataVersion(name, uri, tuple(filter(kind.matches, there)), kind == TABLES))
    if not versions:
        seen = f" ({passed_over[0]})" if passed_over else ""
        raise KfrecError(
            f"{prefix}: no data version below{seen}; put each version into its own folder, with "
            + " and ".join(f"{kind.name}_*" for kind in contract.kinds)
        )
    return versions, passed_over


def new_rows(version: DataVersion, earlier: DataVersion) -> int:
    """Rows of a version that an earlier one lacks, wherever in the files they are and however these are named.

    Rows of tables are compared by content, as ``row_hashes``, those of other text line by line, both by 64-bit hashes:
    of a billion rows, one is taken for another one with a probability of a few percent. The hashes lie in temporary
    files, 8 bytes a row; memory holds those of one file, and one in 64 of all.

    Raises:
        KfrecError: a file is damaged or cannot be read.
    """
    store, other = open_store(version.uri), open_store(earlier.uri)
    sums = {_checksum(other, name) for name in earlier.files} - {None}
    changed = [name for name in version.files if _checksum(store, name) not in sums]
    if not changed:
        return 0
    with tempfile.TemporaryDirectory(prefix="kfrec-find-") as folder:
        known = _write_buckets(Path(folder, "known"), _hashes(other, earlier.files, earlier.are_tables))
        found = _write_buckets(Path(folder, "found"), _hashes(store, changed, version.are_tables))
        return sum(int((~np.isin(_read(new), _read(old))).sum()) for new, old in zip(found, known, strict=True))


def _write_buckets(folder: Path, hashes: Iterable[np.ndarray]) -> list[Path]:
    """Writes hashes, int64, to the file of their last bits."""
    folder.mkdir()
    paths = [folder / str(bucket) for bucket in range(_BUCKETS)]
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for block in hashes:
            order = np.argsort(block % _BUCKETS, kind="stable")
            ends = np.cumsum(np.bincount(block % _BUCKETS, minlength=_BUCKETS))
            for file, part in zip(files, np.split(block[order], ends[:-1]), strict=True):
                file.write(part.tobytes())
    return paths


def _read(path: Path) -> np.ndarray:
    return np.fromfile(path, np.int64)


def _names(store: Store) -> list[str]:
    return list(_RETRY.call(store.uri, store.names) or ())


def _checksum(store: Store, name: str) -> Checksum | None:
    """What the service says that a file holds, None if it does not say."""
    return _RETRY.call(store.url(name), store.stat, name).checksum


def _hashes(store: Store, names: Sequence[str], are_tables: bool) -> Iterator[np.ndarray]:
    """A hash of each row of files, block by block; it holds in this process only."""
    for name in names:
        rows = _of_table(store, name) if are_tables else None
        if rows is None:
            yield from map(
                _of_lines, _packed(store, name) if is_packed(name) else lines(_text(store, name), store.url(name))
            )
        else:
            yield from rows


def _of_table(store: Store, name: str) -> list[np.ndarray] | None:
    """The hashes of a table; None if it needs a schema to be read, such as one with other quotes."""
    with _local(store, name) as path:
        try:
            return [hashes.view(np.int64) for hashes in row_hashes(path)]
        except KfrecError:
            return None


def _of_lines(rows: Sequence[Hashable]) -> np.ndarray:
    return np.fromiter(map(hash, rows), np.int64, len(rows))


def _packed(store: Store, name: str) -> Iterator[Sequence[Hashable]]:
    """The rows of a file that must be read whole."""
    with _local(store, name) as path:
        yield from read_packed(path, store.url(name))


@contextmanager
def _local(store: Store, name: str) -> Iterator[Path]:
    """A file here, fetched where it is elsewhere; no folder above it is named KEY=VALUE."""
    with tempfile.TemporaryDirectory(prefix="kfrec-find-") as folder:
        path, here = Path(folder) / Path(name).name, store.path(name)
        if here is None:
            fetch_file(store, _RETRY, _RETRY.call(store.url(name), store.stat, name), path)
        else:
            path.symlink_to(here.absolute())
        yield path


def _blocks(store: Store, name: str) -> Iterator[bytes]:
    """The bytes of a file; a read that breaks off goes on where it ended."""
    url = store.url(name)
    info, read, failures = _RETRY.call(url, store.stat, name), 0, 0
    while True:
        try:
            for block in store.read(info, read):
                read, failures = read + len(block), 0
                yield block
            return
        except Unavailable as error:
            failures += 1
            _RETRY.after_failure(failures, url, error)
        except Changed:
            raise KfrecError(
                f"{url}: was replaced while its rows were counted; run again once it is complete"
            ) from None


def _text(store: Store, name: str) -> Iterator[bytes]:
    """The content of a file, decompressed; a gzip file may have several members."""
    blocks = _blocks(store, name)
    if not name.endswith(".gz"):
        yield from blocks
        return
    member = zlib.decompressobj(wbits=31)
    try:
        for block in blocks:
            while block:
                yield member.decompress(block, _BLOCK)
                block = member.unconsumed_tail or member.unused_data
                if member.eof:
                    member = zlib.decompressobj(wbits=31)
        yield member.flush()
    except zlib.error as error:
        raise KfrecError(f"{store.url(name)}: not a valid gzip file ({error}); upload it again") from None


def row_hashes(path: Path) -> Iterator[np.ndarray]:
    """Yields a hash of each row, uint64 ``[n]``, in blocks.

    Columns count by name, in any order, or by position in a table without a header; a missing value is as no column,
    and so is the index of a DataFrame.
    1, 1.0 and 1.00 are equal, and so are a time in seconds, ms, us or ns since 1970 and its date in ISO 8601.

    Raises:
        KfrecError: the table is damaged, not UTF-8, or has a quote that is left open.
    """
    delimiter = "," if is_parquet(path, Layout("", (), ())) else delimiter_of(path, _STATED)
    first = columns_of(path, Layout(delimiter, (), ()), _STATED)
    names = [name for name in first if not re.match(_INDEX, name)]
    positions = () if _are_names(names) else tuple(str(position) for position in range(len(first)))
    for batch in batches(path, Layout(delimiter, positions, positions or tuple(names)), _STATED):
        hashed = np.zeros(len(batch.rows), np.uint64)
        for name, column in zip(batch.rows.schema.names, batch.rows.columns, strict=True):
            hashed += _hashes_of(name, column)
        yield mixed(hashed)
        if batch.bad:
            yield _of_texts([line.text.decode(errors="replace") for line in batch.bad])


def _are_names(first: Sequence[str]) -> bool:
    """Whether the first line is a header."""
    is_value = pc.match_substring_regex(pa.array(first, pa.string()), _VALUE)
    return 1 < len(first) == len(set(first)) and not pc.any(is_value).as_py()


def _hashes_of(name: str, column: pa.Array) -> np.ndarray:
    """A hash of each value in a column, 0 where it is missing."""
    if pa.types.is_nested(column.type):
        column = pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string())
    encoded = texts(column, DEFAULT_MISSING).dictionary_encode()
    hashed = np.append(mixed(_of_values(encoded.dictionary) + _of_texts([name])), np.uint64(0))
    return np.asarray(hashed[pc.fill_null(encoded.indices, len(hashed) - 1).to_numpy()])


def _of_texts(values: Sequence[str] | np.ndarray) -> np.ndarray:
    return pd.util.hash_array(np.asarray(values, object), categorize=False)


def _of_values(values: pa.Array) -> np.ndarray:
    """A hash of each text; numbers and times by their value."""
    hashed = _of_texts(values.to_numpy(zero_copy_only=False))

    def where(pattern: str) -> np.ndarray:
        return np.asarray(pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False))

    if (chosen := where(_WHOLE)).any():
        hashed[chosen] = _of_integers(values.filter(pa.array(chosen)).cast(pa.int64()).to_numpy())
    if (chosen := where(_NUMBER)).any():
        hashed[chosen] = _of_floats(values.filter(pa.array(chosen)).cast(pa.float64()).to_numpy())
    if (chosen := where(_DATE)).any():
        dates = values.filter(pa.array(chosen))
        fractions = pc.struct_field(pc.extract_regex(dates, r"(?P<digits>\.\d+)"), "digits").fill_null("")
        nanoseconds = pc.utf8_slice_codeunits(pc.utf8_rpad(pc.utf8_ltrim(fractions, "."), 9, "0"), 0, 9)
        seconds, _ = Times("", "", "").read(pc.replace_substring_regex(dates, r"\.\d+", ""), ())
        known = np.isfinite(seconds)
        times = _of_times(seconds[known].astype(np.int64), nanoseconds.cast(pa.int64()).to_numpy()[known])
        hashed[np.flatnonzero(chosen)[known]] = times
    return hashed


def _of_integers(values: np.ndarray) -> np.ndarray:
    seconds, nanoseconds = values.copy(), np.zeros_like(values)
    for unit in (10**3, 10**6, 10**9):
        is_time = (values >= _FIRST * unit) & (values < _LAST * unit)
        seconds[is_time] = values[is_time] // unit
        nanoseconds[is_time] = values[is_time] % unit * (10**9 // unit)
    return _of_times(seconds, nanoseconds)


def _of_floats(values: np.ndarray) -> np.ndarray:
    """Numbers with a fraction are compared as float32, times as microseconds."""
    floors = np.floor(np.clip(values, -9e18, 9e18))
    is_whole, is_time = values == floors, (values >= _FIRST) & (values < _LAST)
    rounded = values.astype(np.float32).view(np.int32).astype(np.int64)
    micro = np.round((values - floors) * 1e6).astype(np.int64)
    hashed = _of_times(rounded, np.full(len(values), -1))
    hashed = np.where(is_time, _of_times(floors.astype(np.int64) + micro // 10**6, micro % 10**6 * 1000), hashed)
    return np.where(is_whole, _of_integers(floors.astype(np.int64)), hashed)


def _of_times(seconds: np.ndarray, nanoseconds: np.ndarray) -> np.ndarray:
    return mixed(mixed(seconds.view(np.uint64) + GAMMA) + nanoseconds.view(np.uint64))
