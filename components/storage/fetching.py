"""Fetches one object to one file, with retries."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from components.errors import KfrecError
from components.private import open_own
from components.storage.retry import Retry
from components.storage.store import Changed, ObjectInfo, Store, Unavailable


class Bounded:
    """Counts the received bytes of several files up to a limit.

    Args:
        uri: of the source, for messages.
        limit: in bytes.
    """

    def __init__(self, uri: str, limit: int) -> None:
        self._uri, self._limit, self._count = uri, limit, 0

    def advance(self, count: int) -> None:
        """Adds bytes; see ``fetch_file``.

        Raises:
            KfrecError: the limit is exceeded.
        """
        self._count += count
        self.require(self._count)

    def require(self, size: int) -> None:
        """Raises KfrecError if the size exceeds the limit."""
        if size > self._limit:
            raise KfrecError(
                f"{self._uri}: the files have more than {self._limit / 1e9:g} GB; choose fewer, or raise "
                "largest_download"
            )


class Damaged(Exception):
    """The received content is not the expected content."""


def fetch_file(
    store: Store,
    retry: Retry,
    info: ObjectInfo,
    target: Path,
    check: Callable[[ObjectInfo], None] | None = None,
    advance: Callable[[int], None] = lambda count: None,
    begin: Callable[[ObjectInfo], object] = lambda info: None,
) -> ObjectInfo:
    """Fetches an object: resumes an interrupted try, and starts over if the object was replaced or arrived damaged.

    Args:
        retry: the retry policy; the failure count restarts after a try that made progress.
        target: the file; its existing bytes are the object's first bytes. It is kept after an error.
        check: raises Damaged if the file, now complete, is not the object ``info``; ``check_arrived`` by default.
        advance: called with the number of received bytes; negative for bytes to be fetched again.
        begin: called before each try with the version to fetch; may remove ``target``.

    Returns:
        The version that was fetched.

    Raises:
        KfrecError: too many tries failed in a row, or the object is not there or may not be read.
    """
    name, url = info.name, store.url(info.name)
    failures = furthest = shown = 0

    def show(size: int) -> None:
        nonlocal shown
        advance(size - shown)
        shown = size

    while True:
        begin(info)
        try:
            _receive(store, info, target, show)
            check(info) if check else check_arrived(target, info)
            return info
        except Unavailable as error:
            failures = 1 if shown > furthest else failures + 1
            furthest = max(furthest, shown)
            retry.after_failure(failures, url, error)
        except (Changed, Damaged) as error:
            failures += 1
            furthest = max(furthest, shown)
            target.unlink()
            retry.after_failure(failures, url, error)
            info = retry.call(url, store.stat, name)


def check_arrived(path: Path, info: ObjectInfo) -> None:
    """Compares a file's length and checksum with the source's.

    Raises:
        Damaged: they differ.
    """
    size = path.stat().st_size
    if info.size is not None and size != info.size:
        raise Damaged(f"{size} bytes arrived, the source says {info.size}")
    if info.checksum is not None and not info.checksum.matches(path):
        raise Damaged(f"the {info.checksum.kind} of what arrived differs from the source's")


def _receive(store: Store, info: ObjectInfo, target: Path, show: Callable[[int], None]) -> None:
    """Appends the missing bytes; calls ``show`` with the file's size."""
    with os.fdopen(open_own(target, 0o666), "ab") as file:
        size = file.tell()
        show(size)
        if size == info.size:
            return
        for block in store.read(info, size):
            file.write(block)
            size += len(block)
            show(size)
