"""One object to one file, whatever goes wrong in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from components.storage.retry import Retry
from components.storage.store import Changed, ObjectInfo, Store, Unavailable


class Damaged(Exception):
    """What arrived is not what it should be."""


def fetch_file(
    store: Store,
    retry: Retry,
    info: ObjectInfo,
    target: Path,
    check: Callable[[ObjectInfo], None],
    advance: Callable[[int], None],
    begin: Callable[[ObjectInfo], object] = lambda info: None,
) -> ObjectInfo:
    """Fetches an object: resumes where a try broke off, and starts over where it was replaced or arrived damaged.

    Args:
        store: the source.
        retry: when to try again; failures count anew after a try that got further than every one before.
        info: the object as the source described it last.
        target: the file; bytes that it holds are the object's first ones. It stays after an error.
        check: raises Damaged if the file, now complete, is not the object ``info``.
        advance: told how many bytes came; a negative number where these have to come again.
        begin: told before each try which version is fetched; may remove ``target``.

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
            check(info)
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
            info = retry.call(url, lambda: store.stat(name))


def _receive(store: Store, info: ObjectInfo, target: Path, show: Callable[[int], None]) -> None:
    """Appends what is missing; ``show`` is told the file's size."""
    with target.open("ab") as file:
        size = file.tell()
        show(size)
        if size == info.size:
            return
        for block in store.read(info, size):
            file.write(block)
            size += len(block)
            show(size)
