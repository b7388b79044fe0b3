"""How TensorFlow calls kernels: where they are allowed, on how many threads they run, and the memory they fill."""

from __future__ import annotations

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


def in_parts(work: Callable[[int, int, int], None], total: int) -> None:
    """Calls ``work(part, first, last)`` for as many equal parts of ``range(total)`` as there are threads."""
    count = max(min(threads(), total), 1)
    edges = [total * part // count for part in range(count + 1)]
    others = [_pool().submit(work, part, edges[part], edges[part + 1]) for part in range(1, count)]
    work(0, edges[0], edges[1])
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
