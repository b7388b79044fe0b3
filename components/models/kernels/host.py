"""How TensorFlow calls kernels: where they are allowed, on how many threads they run, and the memory they fill."""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import numpy as np
import tensorflow as tf

T = TypeVar("T")
# A core that is interrupted holds up no more than a part.
_PARTS_A_THREAD = 8
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


def parts(total: int) -> int:
    """How many parts :func:`in_parts` makes of ``range(total)``."""
    return max(min(threads() * (_PARTS_A_THREAD if threads() > 1 else 1), total), 1)


def in_parts(work: Callable[[int, int, int], None], total: int) -> None:
    """Calls ``work(part, first, last)`` for equal parts of ``range(total)``; a thread that is done takes the next.

    Which thread takes a part changes from run to run. What is added up over samples is therefore added up by part, so
    that the same batch gives the same bits.
    """
    count = parts(total)
    following = itertools.count().__next__  # one at a time, as Python's lock is held

    def take() -> None:
        while (part := following()) < count:
            work(part, total * part // count, total * (part + 1) // count)

    others = [_pool().submit(take) for _ in range(min(threads(), count) - 1)]
    take()
    for other in others:
        other.result()


@cache
def _background() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "background")


def in_background(job: Callable[[], T]) -> Future[T]:
    """Starts a job beside the operations of TensorFlow, to use what time these spend waiting."""
    return _background().submit(job)


_ALIGNMENT = 64  # TensorFlow copies arrays that begin elsewhere


def _roomy(size: int) -> int:
    """The next of 8 to 16 sizes between a power of two and the next: batches that differ a little share memory."""
    step = 1 << max(size.bit_length() - 4, 0)
    return max(-(-size // step) * step, 1)


class _Memory:
    """Arrays whose memory is used again, as fresh pages cost the system more than what is computed in them."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # arrays may come back while one is asked for, when Python collects garbage
        self._spare: dict[int, list[np.ndarray]] = {}

    def floats(self, *shape: int) -> np.ndarray:
        """A float32 array, not cleared; its memory comes back when nobody holds it any more, TensorFlow included."""
        wanted = math.prod(shape)
        size = _roomy(wanted)
        with self._lock:
            spare = self._spare.setdefault(size, [])
            memory = spare.pop() if spare else None
        if memory is None:
            raw = np.empty(size * 4 + _ALIGNMENT, np.uint8)
            begin = -raw.ctypes.data % _ALIGNMENT
            memory = raw[begin : begin + size * 4].view(np.float32)
        # Views of an array hold the array that stands directly on the memory, so that is what has to be watched.
        array = np.frombuffer(memory.data, np.float32)
        weakref.finalize(array, self._give_back, size, memory)
        return array[:wanted].reshape(shape)

    def _give_back(self, size: int, memory: np.ndarray) -> None:
        with self._lock:
            self._spare[size].append(memory)


_memory = _Memory()
floats = _memory.floats


def call(
    function: Callable[..., Sequence[np.ndarray]], arguments: Sequence[tf.Tensor], shapes: Sequence[tf.TensorShape]
) -> list[tf.Tensor]:
    """An operation of float32 tensors that ``function`` computes, given arrays that it must not write to."""
    kernel = f"{function.__module__.rpartition('.')[2]}_{function.__name__.strip('_')}"  # for who reads a profile
    results = tf.numpy_function(function, arguments, [tf.float32] * len(shapes), stateful=False, name=kernel)
    for result, shape in zip(results, shapes, strict=True):
        result.set_shape(shape)
    return results
