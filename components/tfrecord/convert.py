"""One split from parquet to record files, shuffled in two passes.

Pass one reads the rows once, computes the final position of each with a permutation, and spills it to the bucket of
that position. Pass two reads bucket by bucket, orders its rows, and appends them as records. Positions depend only on a
row's number in the split, the seed, and the number of rows, so the files do not depend on the number of workers or on
the partitioning into part files.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from components.native.compiled import kernel
from components.progress import progress
from components.records.encoding import encode_samples, pack_samples, packed_room, records_room, varints_room
from components.records.framing import index_path
from components.records.layout import Layout
from components.tfrecord.row_groups import RowGroup
from components.tfrecord.samples import write_varints
from components.tfrecord.schema import Column
from components.tfrecord.shards import Permutation, ShardPlan

T = TypeVar("T")
R = TypeVar("R")


def convert_split(
    groups: Sequence[RowGroup],
    columns: Sequence[Column],
    lengths: Mapping[str, int],
    layout: Layout,
    plan: ShardPlan,
    permutation: Permutation,
    files: Sequence[Path],
    workers: int,
) -> None:
    """Writes the samples of ``groups`` to ``files``, one per shard, each with its index.

    Needs temporary space of about the size of ``files`` on their disk.

    Args:
        layout: the same columns as features of the records.

    Raises:
        KfrecError: samples that break feature_spec.yaml.
        LongerList: a list is longer than ``lengths`` says.
    """
    with Spill(files[0].parent) as spill:
        with progress("shuffling samples", plan.rows, "samples") as bar:
            spaces = ArrayPool(lambda: _Space.of(layout, plan))

            def spill_group(group: RowGroup) -> None:
                space = spaces.take()
                first_row = group.first_row
                for batch in group.batches(rows=plan.batch_rows):
                    if batch.num_rows:
                        write_varints(batch, columns, lengths, group, space.varints, space.ends)
                        positions = permutation.positions(first_row, batch.num_rows)
                        run = _sort(positions, plan.shard_rows, plan.bucket_rows, *space)
                        spill.append(space.run[:run], space.bucket_ends)
                        first_row += batch.num_rows
                        bar.advance(batch.num_rows)
                spaces.give(space)

            for _ in in_order(spill_group, groups, workers):
                pass
        _write(spill, layout, plan, files, workers)


class _Space(NamedTuple):
    """The buffers of a batch in pass one.

    Attributes:
        varints: uint8, its values, column by column.
        ends: int64 [columns, rows + 1], offsets of each row's values in ``varints``.
        order: int64 [rows], its rows by bucket.
        places: int64 [rows], in the same order, the position of each in its bucket.
        run: uint8, the packed samples in the same order.
        bucket_ends: int64 [buckets], end offset of each bucket in ``run``.
    """

    varints: np.ndarray
    ends: np.ndarray
    order: np.ndarray
    places: np.ndarray
    run: np.ndarray
    bucket_ends: np.ndarray

    @staticmethod
    def of(layout: Layout, plan: ShardPlan) -> _Space:
        rows, features = plan.batch_rows, len(layout.features)
        return _Space(
            np.empty(varints_room(rows * layout.width), np.uint8),
            np.empty((features, rows + 1), np.int64),
            np.empty(rows, np.int64),
            np.empty(rows, np.int64),
            np.empty(packed_room(rows, features, layout.width), np.uint8),
            np.empty(plan.buckets, np.int64),
        )


@kernel
def _sort(positions, shard_rows, bucket_rows, varints, ends, order, targets, run, bucket_ends):  # type: ignore[no-untyped-def]
    """Packs the rows of a batch sorted by bucket (a counting sort); returns their size in bytes."""
    per_shard = -(-shard_rows // bucket_rows)
    bucket_ends[:] = 0
    for i in range(len(positions)):
        bucket_ends[positions[i] // shard_rows * per_shard + positions[i] % shard_rows // bucket_rows] += 1
    begin = 0
    for bucket in range(len(bucket_ends)):
        begin, bucket_ends[bucket] = begin + bucket_ends[bucket], begin
    for i in range(len(positions)):
        shard, within = divmod(positions[i], shard_rows)
        bucket = shard * per_shard + within // bucket_rows
        order[bucket_ends[bucket]] = i
        targets[bucket_ends[bucket]] = within % bucket_rows
        bucket_ends[bucket] += 1
    at = begin = 0
    for bucket in range(len(bucket_ends)):
        end = bucket_ends[bucket]
        at = pack_samples(varints, ends, order[begin:end], targets[begin:end], run, at)
        begin, bucket_ends[bucket] = end, at
    return at


def _write(spill: Spill, layout: Layout, plan: ShardPlan, files: Sequence[Path], workers: int) -> None:
    """Pass two."""
    packed_bytes = packed_room(plan.bucket_rows, len(layout.features), layout.width)
    record_bytes = records_room(layout, packed_bytes, plan.bucket_rows, plan.samples_per_record)
    packed_spares = ArrayPool(lambda: np.empty(packed_bytes, np.uint8))
    record_spares = ArrayPool(lambda: np.empty(record_bytes, np.uint8))

    def encode(bucket: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
        packed, out = packed_spares.take(), record_spares.take()
        size = spill.read(bucket, packed)
        rows = plan.rows_of(bucket)
        records, ends = encode_samples(layout, packed, size, rows, plan.samples_per_record, out)
        packed_spares.give(packed)
        return out, records, ends, rows

    with (
        progress("writing records", plan.rows, "samples") as bar,
        closing(in_order(encode, range(plan.buckets), workers)) as encoded,
    ):
        for path in files:
            ends = [np.zeros(1, np.int64)]
            with path.open("wb") as file:
                for out, records, record_ends, rows in islice(encoded, plan.buckets_per_shard):
                    ends.append(file.tell() + record_ends)
                    file.write(records.data)
                    record_spares.give(out)
                    bar.advance(rows)
            with index_path(path).open("wb") as file:
                np.save(file, np.concatenate(ends))


class Spill:
    """A temporary file."""

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


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Generator[R, None, None]:
    """Yields ``function(item)`` for every item, in order, with at most ``workers + 1`` of them in flight.

    Threads suffice because kernels and I/O release the GIL; they share memory and compiled code. The first exception
    ends the iteration and cancels the items that have not started.
    """
    pending: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                if len(pending) > workers:
                    yield pending.popleft().result()
                pending.append(pool.submit(function, item))
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


class ArrayPool(Generic[T]):
    """A pool of reusable arrays: allocating fresh memory costs more than the computation in it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._spare: SimpleQueue[T] = SimpleQueue()

    def take(self) -> T:
        """An unused array. Thread-safe."""
        try:
            return self._spare.get_nowait()
        except Empty:
            return self._make()

    def give(self, used: T) -> None:
        """Returns an array to the pool. Thread-safe."""
        self._spare.put(used)
