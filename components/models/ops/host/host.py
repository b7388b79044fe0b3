"""Calls kernels from TensorFlow: threads, chunks and output buffers."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
import tensorflow as tf

from components.models.ops.host.vectors import LANES, everywhere, load, store
from components.native import arrays
from components.native.compiled import kernel

# A chunk is half of a thread's share of the remaining range, and at least 1/32 of its share of the whole range. That
# makes few chunks, and bounds the wait at the end for a thread that was preempted.
_SMALLEST_A_THREAD = 32
_BLOCK, _BLOCKS = 1024, 16  # floats of a block of sums; blocks of the smallest chunk


@cache
def threads() -> int:
    """Threads of a kernel: TensorFlow's intra-op parallelism, whether set in the process or in the environment."""
    set_here = tf.config.threading.get_intra_op_parallelism_threads()
    return set_here or int(os.environ.get("TF_NUM_INTRAOP_THREADS", 0)) or len(os.sched_getaffinity(0))


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(threads() - 1, 1), "kernel")


def _borders(total: int, least: int = 1) -> list[int]:
    """Where the chunks of ``range(total)`` begin, and where the last one ends."""
    borders = [0]
    while (left := total - borders[-1]) > 0:
        share = left // (2 * threads()) if threads() > 1 else total
        smallest = max(least, -(-total // (threads() * _SMALLEST_A_THREAD)))
        borders.append(borders[-1] + min(max(share, smallest), left))
    return borders


def parts(total: int) -> int:
    """The number of chunks that ``in_parts`` splits ``range(total)`` into."""
    return len(_borders(total)) - 1


def in_parts(work: Callable[..., None], total: int, room: int = 0, least: int = 1) -> None:
    """Splits ``range(total)`` into shrinking chunks; idle threads take the next one.

    The assignment of chunks to threads is not deterministic. Sums over samples are therefore accumulated per chunk, so
    that the same batch gives the same bits.

    Args:
        work: called as ``work(chunk, first, last)``.
        total: length of the range.
        room: if above 0, ``work`` also gets a scratch array of ``room`` floats, reused by each thread.
        least: length of the smallest chunk but the last, below which call overhead dominates.
    """
    borders = _borders(total, least)
    following = itertools.count().__next__  # atomic, as Python's lock is held

    def take() -> None:
        rooms = [floats(room)] if room else []
        while (chunk := following()) < len(borders) - 1:
            work(chunk, borders[chunk], borders[chunk + 1], *rooms)

    others = [_pool().submit(take) for _ in range(min(threads(), len(borders) - 1) - 1)]
    take()
    for other in others:
        # Once no chunk is left, do not wait for threads that are busy with another kernel.
        if not other.cancel():
            other.result()


def summed(parts: np.ndarray) -> np.ndarray:
    """The sum over parts, float32 ``[parts, size]`` to ``[size]``."""
    count, size = parts.shape
    sums = floats(size)
    flat = parts.reshape(-1), count, size, sums
    blocks = -(-size // _BLOCK)
    in_parts(lambda part, first, last: _sum(*flat, first * _BLOCK, min(last * _BLOCK, size)), blocks, least=_BLOCKS)
    return sums


@kernel
def _sum(parts, count, size, sums, first, last):  # type: ignore[no-untyped-def]
    """Sums entries ``[first, last)`` over the parts."""
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


def floats(*shape: int) -> np.ndarray:
    """An uninitialized float32 array in pooled memory."""
    return arrays.empty(shape, np.float32)


def call(
    function: Callable[..., Sequence[np.ndarray]], arguments: Sequence[tf.Tensor], shapes: Sequence[tf.TensorShape]
) -> list[tf.Tensor]:
    """An operation that runs ``function`` on read-only arrays and returns float32 tensors of these shapes."""
    kernel = f"{function.__module__.rpartition('.')[2]}_{function.__name__.strip('_')}"  # shown in profiles
    results = tf.numpy_function(function, arguments, [tf.float32] * len(shapes), stateful=False, name=kernel)
    results = results if isinstance(results, list) else [results]  # eagerly, a single result is not a list
    # TensorFlow's graph optimizer ignores set_shape and warns about unknown shapes.
    return [tf.ensure_shape(result, shape) for result, shape in zip(results, shapes, strict=True)]
