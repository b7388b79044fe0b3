"""A few threads that work ahead, results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R, None, None]:
    """Yields ``function(item)`` for every item, in order, with at most ``workers + 1`` of them under way or waiting.

    Threads suffice where the work is in kernels and I/O, which leave the GIL alone; they share memory and compiled
    code. The first exception ends the iteration; what has not begun by then does not begin.
    """
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                if len(pending) > workers:
                    yield pending.popleft().result()
                pending.append(pool.submit(function, item))
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
