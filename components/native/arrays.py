"""Arrays with recycled memory, because fresh pages cost more than writing to them."""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence

import numpy as np

ALIGNMENT = 64
"""Bytes; TensorFlow copies unaligned arrays."""


def empty(shape: Sequence[int], dtype: type[np.generic]) -> np.ndarray:
    """An array, not cleared, that begins at a multiple of ALIGNMENT.

    Its memory is recycled once no reference to it or to a view of it remains, including TensorFlow's.
    """
    return _memory.empty(shape, np.dtype(dtype))


def _roomy(size: int) -> int:
    """Rounds up to one of 8 sizes per power of two, so that batches of similar size share memory."""
    step = 1 << max(size.bit_length() - 4, 6)
    return max(-(-size // step) * step, step)


class _Memory:
    def __init__(self) -> None:
        self._lock = threading.RLock()  # garbage collection may return an array during an allocation
        self._spare: dict[int, list[np.ndarray]] = {}

    def empty(self, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
        wanted = math.prod(shape) * dtype.itemsize
        size = _roomy(wanted)
        with self._lock:
            spare = self._spare.setdefault(size, [])
            memory = spare.pop() if spare else None
        if memory is None:
            raw = np.empty(size + ALIGNMENT, np.uint8)
            begin = -raw.ctypes.data % ALIGNMENT
            memory = raw[begin : begin + size]
        # Views keep a reference to the array that wraps the buffer, so its lifetime is the one to watch.
        array = np.frombuffer(memory.data, np.uint8)
        weakref.finalize(array, self._give_back, size, memory)
        return array[:wanted].view(dtype).reshape(shape)

    def _give_back(self, size: int, memory: np.ndarray) -> None:
        with self._lock:
            self._spare[size].append(memory)


_memory = _Memory()
