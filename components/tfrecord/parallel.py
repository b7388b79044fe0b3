"""A thread pool with ordered results and bounded look-ahead, and recycled buffers for it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R, None, None]:
    """Yields ``function(item)`` for every item, in order, with at most ``workers + 1`` of them in flight.

    Threads suffice because kernels and I/O release the GIL; they share memory and compiled code. The first exception
    ends the iteration and cancels the items that have not started.
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


class ArrayPool(Generic[T]):
    """A pool of reusable arrays: allocating fresh memory costs more than the computation in it.

    Args:
        make: allocates an array when all are in use.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._spare: SimpleQueue[T] = SimpleQueue()

    def take(self) -> T:
        """An unused array. Thread-safe."""
        try:
            return self._spare.get_nowait()
        except Empty:
            return self._make()

    def give(self, used: T) -> None:
        """Returns an array to the pool. Thread-safe."""
        self._spare.put(used)
