"""How TensorFlow calls kernels: where they are allowed, on how many threads they run, and the memory they fill."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import numpy as np
import tensorflow as tf

from components import arrays
from components.compiled import kernel
from components.models.kernels.vectors import LANES, everywhere, load, store

T = TypeVar("T")
# Each part takes what a thread would get of the rest, halved; at last a thread gets so many parts of the same size. Few
# parts, and nobody waits long at the end for a thread that was interrupted.
_SMALLEST_A_THREAD = 32
_BLOCK, _BLOCKS = 1024, 16  # floats of sums that are added up at a time, and of these
_allowed = ContextVar("host_kernels", default=False)


@contextmanager
def host_kernels(allowed: bool = True) -> Iterator[None]:
    """Functions traced within may call kernels, if no GPU is visible; they cannot be exported or compiled by XLA."""
    token = _allowed.set(allowed and not tf.config.get_visible_devices("GPU"))
    try:
        yield
    finally:
        _allowed.reset(token)


def are_allowed() -> bool:
    """Whether what is traced now may call kernels."""
    return _allowed.get()


@cache
def threads() -> int:
    """Threads that a kernel may take, as many as TensorFlow for one operation."""
    return tf.config.threading.get_intra_op_parallelism_threads() or len(os.sched_getaffinity(0))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(threads() - 1, 1), "kernel")


def _borders(total: int, least: int = 1) -> list[int]:
    """Where the parts of ``range(total)`` begin, and where the last one ends."""
    borders = [0]
    while (left := total - borders[-1]) > 0:
        share = left // (2 * threads()) if threads() > 1 else total
        smallest = max(least, -(-total // (threads() * _SMALLEST_A_THREAD)))
        borders.append(borders[-1] + min(max(share, smallest), left))
    return borders


def parts(total: int) -> int:
    """How many :class:`Parts` there are of ``range(total)``."""
    return len(_borders(total)) - 1


class Parts:
    """Smaller and smaller parts of ``range(total)``, of which who is done with one takes the next.

    Which thread takes a part changes from run to run. What is added up over samples is therefore added up by part, so
    that the same batch gives the same bits.

    Args:
        work: called as ``work(part, first, last)``.
        total: how many there are in all.
        room: where it is above 0, ``work`` is also given an array of so many floats, which parts share one after the
            other.
        least: no part but the last is smaller, as calling would take longer than what is done.
    """

    def __init__(self, work: Callable[..., None], total: int, room: int = 0, least: int = 1) -> None:
        self._work, self._room, self._borders = work, room, _borders(total, least)
        self._following = itertools.count().__next__  # one at a time, as Python's lock is held
        self._ahead: Future[None] | None = None

    def begin(self) -> None:
        """Lets a thread take parts in idle time, until :meth:`finish`."""
        self._ahead = in_idle_time(self._take)

    def finish(self) -> None:
        """Takes what is left on all threads."""
        others = [_pool().submit(self._take) for _ in range(min(threads(), len(self._borders) - 1) - 1)]
        self._take()
        for other in [*others, *filter(None, [self._ahead])]:
            # Threads that are busy with another kernel are not waited for once nothing is left for them.
            if not other.cancel():
                other.result()

    def _take(self) -> None:
        rooms = [floats(self._room)] if self._room else []
        while (part := self._following()) < len(self._borders) - 1:
            self._work(part, self._borders[part], self._borders[part + 1], *rooms)


def in_parts(work: Callable[..., None], total: int, room: int = 0, least: int = 1) -> None:
    """Calls ``work`` for all of :class:`Parts`."""
    Parts(work, total, room, least).finish()


def summed(parts: np.ndarray) -> np.ndarray:
    """The sums ``[size]`` of what parts have added up, each float32 ``[size]``."""
    count, size = parts.shape
    sums = floats(size)
    flat = parts.reshape(-1), count, size, sums
    blocks = -(-size // _BLOCK)
    in_parts(lambda part, first, last: _sum(*flat, first * _BLOCK, min(last * _BLOCK, size)), blocks, least=_BLOCKS)
    return sums


@kernel
def _sum(parts, count, size, sums, first, last):  # type: ignore[no-untyped-def]
    """Those of the numbers from ``first`` to before ``last``."""
    at = first
    while at + LANES <= last:
        total = everywhere(np.float32(0))
        for part in range(count):
            total = total + load(parts, part * size + at)
        store(sums, at, total)
        at += LANES
    for left in range(at, last):
        sums[left] = 0
        for part in range(count):
            sums[left] += parts[part * size + left]


@cache
def _idle() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "idle", _yield_to_others)


def _yield_to_others() -> None:
    """Lets this thread run only while a core has nothing else to do, where the system knows such a thing."""
    with suppress(AttributeError, OSError):
        os.sched_setscheduler(threading.get_native_id(), os.SCHED_IDLE, os.sched_param(0))


def in_idle_time(job: Callable[[], T]) -> Future[T]:
    """Starts a job beside the operations of TensorFlow, in what time these leave a core idle."""
    return _idle().submit(job)


def floats(*shape: int) -> np.ndarray:
    """A float32 array, not cleared, whose memory is used again."""
    return arrays.empty(shape, np.float32)


def call(
    function: Callable[..., Sequence[np.ndarray]], arguments: Sequence[tf.Tensor], shapes: Sequence[tf.TensorShape]
) -> list[tf.Tensor]:
    """An operation of float32 tensors that ``function`` computes, given arrays that it must not write to."""
    kernel = f"{function.__module__.rpartition('.')[2]}_{function.__name__.strip('_')}"  # for who reads a profile
    results = tf.numpy_function(function, arguments, [tf.float32] * len(shapes), stateful=False, name=kernel)
    # TensorFlow's optimizer sees no shape that is only noted, and warns about what it cannot estimate.
    return [tf.ensure_shape(result, shape) for result, shape in zip(results, shapes, strict=True)]
