"""The reader of served rows: of a folder that kfrec has written, or of one that KServe's logger has."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.served_rows import kserve
from components.served_rows.schema import SCHEMA
from components.storage import Retry, Store, below, fetch_file, open_store

_DAY, _FILE = re.compile(r"\d{4}-\d\d-\d\d"), re.compile(r"\d\d-[^-]+-\d+\.parquet")
_RETRY = Retry(5)


def days_of(location: str) -> list[date]:
    """The days that a folder or URI of served rows has, oldest first.

    Raises:
        KfrecError: it cannot be read.
    """
    store = open_store(location)
    return sorted(date.fromisoformat(name) for name in _RETRY.call(location, store.folders) if _DAY.fullmatch(name))


def read_served(location: str, since: date | None = None, until: date | None = None) -> Iterator[pa.Table]:
    """Reads served rows, a file at a time, oldest hour first.

    Args:
        location: the folder or URI that they were written to, or that of a component's objects of KServe's logger.
        since: the first day; None is the oldest.
        until: the day after the last one; None is the newest.

    Yields:
        Tables of SCHEMA.

    Raises:
        KfrecError: the folder or a file cannot be read, or a file is none of served rows.
    """
    for store, name in served_files(location, since, until):
        yield read_file(store, name)
    yield from kserve.tables_of(open_store(location), since, until)


def served_files(location: str, since: date | None = None, until: date | None = None) -> Iterator[tuple[Store, str]]:
    """The files that ``read_served`` reads, each with the store of its day."""
    for day in days_of(location):
        if (since is None or since <= day) and (until is None or day < until):
            store = open_store(below(location, day.isoformat()))
            for name in sorted(_RETRY.call(store.uri, store.names) or ()):
                if _FILE.fullmatch(name):
                    yield store, name


def read_file(store: Store, name: str) -> pa.Table:
    """The rows of a file; see ``read_served``."""
    path = store.path(name)
    if path is not None:
        return _read(path, store.url(name))
    with tempfile.TemporaryDirectory(prefix="kfrec-served-") as scratch:
        fetched = Path(scratch) / "rows.parquet"
        fetch_file(store, _RETRY, _RETRY.call(store.url(name), store.stat, name), fetched)
        return _read(fetched, store.url(name))


def _read(path: Path, shown: str) -> pa.Table:
    try:
        return pq.read_table(path, partitioning=None).select(SCHEMA.names).cast(SCHEMA)
    except (pa.ArrowException, KeyError, ValueError) as error:
        said = " ".join(str(error).split())
        raise KfrecError(f"{shown}: is no file of served rows ({said}); move it away") from None
