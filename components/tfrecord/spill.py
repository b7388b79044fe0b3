"""Rows on disk, in buckets: what makes a shuffle of any size fit in bounded memory.

Workers append matrices whose rows are sorted by bucket; a bucket is read back by collecting its piece of every matrix.
The file has no name, so that it vanishes with the process however that ends.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path
from types import TracebackType

import numpy as np


class Spill:
    """A temporary file of int32 rows.

    Args:
        folder: on the disk to use.
        width: values a row.
    """

    def __init__(self, folder: Path, width: int) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115 - closed on exit
        self._row_bytes = 4 * width
        self._width = width
        self._end = 0
        self._runs: list[tuple[int, np.ndarray]] = []
        self._lock = threading.Lock()

    def __enter__(self) -> Spill:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, rows: np.ndarray, bucket_ends: np.ndarray) -> None:
        """Adds ``rows``, int32 [n, width], where bucket b holds the rows up to ``bucket_ends[b]``. Thread-safe.

        Raises:
            OSError: the disk is full.
        """
        with self._lock:
            begin = self._end
            self._end += rows.nbytes
            self._runs.append((begin, np.concatenate(([0], bucket_ends)).astype(np.int32)))
        data = rows.reshape(-1).view(np.uint8).data
        done = 0
        while done < len(data):
            done += os.pwrite(self._file.fileno(), data[done:], begin + done)

    def read(self, bucket: int) -> np.ndarray:
        """The rows of a bucket in no particular order, int32 [n, width]. Thread-safe."""
        pieces = [(begin, int(starts[bucket]), int(starts[bucket + 1])) for begin, starts in self._runs]
        rows = np.empty((sum(end - first for _, first, end in pieces), self._width), np.int32)
        data = rows.reshape(-1).view(np.uint8).data
        at = 0
        for begin, first, end in pieces:
            upto = at + (end - first) * self._row_bytes
            offset = begin + first * self._row_bytes
            while at < upto:
                read = os.preadv(self._file.fileno(), [data[at:upto]], offset)
                at += read
                offset += read
        return rows
