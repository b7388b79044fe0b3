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
