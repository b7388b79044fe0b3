"""How TensorFlow calls kernels: where they are allowed, on how many threads they run, and the memory they fill."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
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
    """How many parts :func:`in_parts` makes of ``range(total)``."""
    return len(_borders(total)) - 1


def in_parts(work: Callable[..., None], total: int, room: int = 0, least: int = 1) -> None:
    """Calls ``work(part, first, last)`` for smaller and smaller parts of ``range(total)``; who is done takes the next.

    Where ``room`` is above 0, ``work`` is also given an array of so many floats, which parts share one after the other.
    No part but the last is smaller than ``least``, below which calling takes longer than what is done.

    Which thread takes a part changes from run to run. What is added up over samples is therefore added up by part, so
    that the same batch gives the same bits.
    """
    borders = _borders(total, least)
    following = itertools.count().__next__  # one at a time, as Python's lock is held

    def take() -> None:
        rooms = [floats(room)] if room else []
        while (part := following()) < len(borders) - 1:
            work(part, borders[part], borders[part + 1], *rooms)

    others = [_pool().submit(take) for _ in range(min(threads(), len(borders) - 1) - 1)]
    take()
    for other in others:
        # Threads that are busy with another kernel are not waited for once nothing is left for them.
        if not other.cancel():
            other.result()


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
def _background() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "background")


def in_background(job: Callable[[], T]) -> Future[T]:
    """Starts a job beside the operations of TensorFlow, to use what time these spend waiting."""
    return _background().submit(job)


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
