"""Packed samples on disk, in buckets, so that a shuffle of any size needs bounded memory.

Workers append runs of bytes sorted by bucket; a bucket is read back by gathering its piece of every run. The file has
no name, so it disappears with the process.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import numpy as np


class Spill:
    """A temporary file.

    Args:
        folder: folder on the disk to use.
    """

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed on exit
        self._end = 0
        self._runs: list[tuple[int, np.ndarray]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def append(self, run: np.ndarray, bucket_ends: np.ndarray) -> None:
        """Adds ``run``, uint8, where bucket b has the bytes up to ``bucket_ends[b]``. Thread-safe.

        Raises:
            OSError: the disk is full.
        """
        with self._lock:
            begin = self._end
            self._end += len(run)
            self._runs.append((begin, np.concatenate(([0], bucket_ends)).astype(np.uint32)))
        done = 0
        while done < len(run):
            done += os.pwrite(self._file.fileno(), run.data[done:], begin + done)

    def read(self, bucket: int, into: np.ndarray) -> int:
        """Reads a bucket, its runs in no particular order, into ``into``; returns its size in bytes. Thread-safe."""
        at = 0
        for begin, starts in self._runs:
            first, end = int(starts[bucket]), int(starts[bucket + 1])
            while first < end:
                read = os.preadv(self._file.fileno(), [into.data[at : at + end - first]], begin + first)
                at += read
                first += read
        return at
