"""Prefetches the next items of an iterator in a background thread."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_POLL_SECONDS = 0.1


def prefetched(items: Iterable[T], size: int) -> Iterator[T]:
    """Yields ``items`` in order, with up to ``size`` of them prefetched.

    An exception of ``items`` is raised here, after the items before it. Closing the iterator, or its garbage
    collection, ends the thread.

    Args:
        size: items to prefetch; 0 disables the thread.
    """
    if size <= 0:
        yield from items
        return
    ready: queue.Queue[tuple[str, Any]] = queue.Queue(size)
    closed = threading.Event()
    thread = threading.Thread(target=_fill, args=(items, ready, closed), name="prefetch", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        closed.set()
        # While Python shuts down, daemon threads stand still: since 3.13 a join would wait forever.
        if not sys.is_finalizing():
            thread.join()


def _fill(items: Iterable[Any], ready: queue.Queue[tuple[str, Any]], closed: threading.Event) -> None:
    try:
        for item in items:
            if not _offer(ready, ("item", item), closed):
                return
        _offer(ready, ("end", None), closed)
    except BaseException as error:  # re-raised in the reading thread
        _offer(ready, ("error", error), closed)


def _offer(ready: queue.Queue[tuple[str, Any]], entry: tuple[str, Any], closed: threading.Event) -> bool:
    while not closed.is_set():
        try:
            ready.put(entry, timeout=_POLL_SECONDS)
            return True
        except queue.Full:
            continue
    return False
