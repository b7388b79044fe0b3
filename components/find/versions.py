"""The data versions under a prefix: one folder each, with a complete set of raw files."""

from __future__ import annotations

import re
import tempfile
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from components.datasets import RawContract
from components.errors import KfrecError
from components.storage import Changed, Retry, Store, Unavailable, fetch_file, is_uri, open_store
from components.storage.packed import is_packed, lines, read_packed
from components.storage.store import Checksum

_RETRY = Retry(5)


@dataclass(frozen=True)
class DataVersion:
    """One version of the data."""

    name: str
    uri: str
    files: tuple[str, ...]


def natural_order(name: str) -> list[tuple[int, int, str]]:
    """A key that sorts names with their numbers as numbers: v9 before v10, 2026-11-02 before 2026-11-10."""
    parts = re.split(r"(\d+)", name)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]


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
            versions.append(DataVersion(name, uri, tuple(file for file in there if contract.kinds[0].matches(file))))
    if not versions:
        seen = f" ({passed_over[0]})" if passed_over else ""
        raise KfrecError(
            f"{prefix}: no data version below{seen}; put each version into its own folder, with "
            + " and ".join(f"{kind.name}_*" for kind in contract.kinds)
        )
    return versions, passed_over


def new_rows(version: DataVersion, earlier: DataVersion, enough: int) -> int:
    """Rows of a version that an earlier one lacks; counting stops at ``enough``.

    Rows are compared by 64-bit hashes of their text, wherever in the files they are, so that a window that rolls on
    brings only what is new. Packed files are fetched, others streamed. Memory holds 8 bytes for each earlier row.

    Raises:
        KfrecError: a file is damaged or cannot be read.
    """
    store, other = open_store(version.uri), open_store(earlier.uri)
    sums = {(name, _checksum(other, name)) for name in earlier.files}
    changed = [name for name in version.files if (name, _checksum(store, name) or "unknown") not in sums]
    if not changed or not enough:
        return 0
    known = np.unique(np.concatenate([np.zeros(0, np.int64), *_hashes(other, earlier.files)]))
    total = 0
    for hashes in _hashes(store, changed):
        total += len(hashes) - int(np.isin(hashes, known).sum())
        if total >= enough:
            return enough
    return total


def _names(store: Store) -> list[str]:
    return list(_RETRY.call(store.uri, store.names) or ())


def _checksum(store: Store, name: str) -> Checksum | None:
    """What the service says that a file holds, None if it does not say."""
    return _RETRY.call(store.url(name), store.stat, name).checksum


def _hashes(store: Store, names: Sequence[str]) -> Iterator[np.ndarray]:
    """A hash of each row of files, block by block; it holds in this process only."""
    for name in names:
        for rows in _packed(store, name) if is_packed(name) else lines(_text(store, name)):
            yield np.fromiter(map(hash, rows), np.int64, len(rows))


def _packed(store: Store, name: str) -> Iterator[Sequence[Hashable]]:
    """The rows of a file that must be fetched whole."""
    with tempfile.TemporaryDirectory(prefix="kfrec-find-") as folder:
        path, info = Path(folder) / "file", _RETRY.call(store.url(name), store.stat, name)
        fetch_file(store, _RETRY, info, path)
        yield from read_packed(path, store.url(name))


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
                yield member.decompress(block)
                block = member.unused_data
                if member.eof:
                    member = zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise KfrecError(f"{store.url(name)}: not a valid gzip file ({error}); upload it again") from None
