"""Reviews sorted by user on disk, so that a partition of whole users can be read without ever holding all reviews.

Reviews arrive in any order. They are collected into runs of a quarter of a million, each sorted by a 64-bit hash of the
user and written to one Arrow file while the next is collected. A partition is a range of the hash: every sorted run
holds its share as one slice. The hash, and so the partitioning, depends only on the users' names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from components.datasets.amazon_reviews.reviews import REVIEW

RUN_REVIEWS = 1 << 18
RUN = REVIEW.insert(0, pa.field("user_key", pa.int64()))


@dataclass(frozen=True)
class UserRange:
    """The users of one partition: those whose key is in [first, last], read from all runs."""

    runs: tuple[Path, ...]
    first: int
    last: int

    def read(self) -> pa.Table:
        """Their reviews as a table of the schema ``RUN``, in no particular order."""
        slices = [RUN.empty_table()]
        for path in self.runs:
            run = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            keys = run["user_key"].chunk(0).to_numpy()
            start = np.searchsorted(keys, self.first, side="left")
            stop = np.searchsorted(keys, self.last, side="right")
            slices.append(run.slice(start, stop - start))
        return pa.concat_tables(slices)


class UserRuns:
    """Writes runs into ``folder``; a context manager that waits for pending writes."""

    def __init__(self, folder: Path, run_reviews: int = RUN_REVIEWS) -> None:
        self._folder, self._run_reviews = folder, run_reviews
        self._pending: list[pa.Table] = []
        self._pending_reviews = 0
        self._runs: list[Path] = []
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="user-runs")
        self._writing: Future[None] | None = None
        self.reviews = 0  # Taken so far.

    def __enter__(self) -> UserRuns:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.shutdown()

    def add(self, reviews: pa.Table) -> None:
        """Takes a table of the schema ``REVIEW``."""
        self._pending.append(reviews)
        self._pending_reviews += reviews.num_rows
        self.reviews += reviews.num_rows
        if self._pending_reviews >= self._run_reviews:
            self._end_run()

    def partitions(self, reviews_per_partition: int) -> list[UserRange]:
        """Ends the writing and divides all users into partitions of about that many reviews."""
        self._end_run()
        self._wait()
        count = max(1, math.ceil(self.reviews / reviews_per_partition))
        bounds = [-(2**63) + index * 2**64 // count for index in range(count + 1)]
        return [UserRange(tuple(self._runs), bounds[i], bounds[i + 1] - 1) for i in range(count)]

    def _end_run(self) -> None:
        if not self._pending_reviews:
            return
        self._wait()  # Back-pressure: otherwise runs would pile up in memory on a slow disk.
        self._runs.append(self._folder / f"run-{len(self._runs)}.arrow")
        self._writing = self._writer.submit(_write_run, self._pending, self._runs[-1])
        self._pending, self._pending_reviews = [], 0

    def _wait(self) -> None:
        if self._writing is not None:
            self._writing.result()


def _write_run(tables: Sequence[pa.Table], path: Path) -> None:
    reviews = pa.concat_tables(tables).combine_chunks()
    keys = user_keys(reviews["reviewerID"])
    order = np.argsort(keys)
    run = reviews.take(pa.array(order)).combine_chunks()
    with pa.ipc.new_file(path, RUN) as writer:
        writer.write_table(run.add_column(0, RUN[0], pa.array(keys[order])))


def user_keys(users: pa.ChunkedArray) -> np.ndarray:
    """A 64-bit hash of each user's name (SipHash, as pandas has it): int64, the same on every machine.

    Two of ten million users share one with a probability of 3 in a million; ``histories`` rejects them.
    """
    encoded = users.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_numpy(zero_copy_only=False)
    return pd.util.hash_array(names, categorize=False).view(np.int64)[encoded.indices.to_numpy()]
