"""One split from parquet to record files, shuffled in two passes.

Pass one reads the rows once, knows from a permutation where each will end up, and spills it to the bucket that
holds that position. Pass two reads bucket by bucket, puts its rows in order, and appends them as records. Positions
depend only on a row's number in the split, on the seed, and on the number of rows, so the files do not depend on how
many workers there are or on how the rows are spread over part files.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np

from components.progress import progress
from components.records.compiled import kernel
from components.records.decoding import Layout
from components.records.encoding import encode_samples
from components.records.framing import index_path
from components.tfrecord.parallel import in_order
from components.tfrecord.parts import BATCH_ROWS, RowGroup
from components.tfrecord.permutation import Permutation
from components.tfrecord.samples import fill
from components.tfrecord.schema import Column
from components.tfrecord.shards import ShardPlan
from components.tfrecord.spill import Spill


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
    """Writes the samples of ``groups`` to ``files``, one a shard, each with its index.

    Temporary data as large as the samples in int32 stands on the disk of ``files`` meanwhile.

    Args:
        groups: all row groups of the split.
        columns: what their columns mean.
        lengths: values a sample has in each history channel.
        layout: the same columns as features of the records.
        plan: which position goes where.
        permutation: the position of each row.
        files: to write, in order.
        workers: threads.

    Raises:
        KfrecError: samples that break metadata.json.
        LongerList: a list is longer than ``lengths`` says.
    """
    with Spill(files[0].parent, layout.width + 1) as spill:
        _shuffle(groups, columns, lengths, plan, permutation, spill, workers)
        _write(spill, layout, plan, files, workers)


def _shuffle(
    groups: Sequence[RowGroup],
    columns: Sequence[Column],
    lengths: Mapping[str, int],
    plan: ShardPlan,
    permutation: Permutation,
    spill: Spill,
    workers: int,
) -> None:
    """Pass one."""
    lock = threading.Lock()
    with progress("shuffling samples", plan.rows, "samples") as bar:

        def advance(rows: int) -> None:
            with lock:
                bar.advance(rows)

        def spill_group(group: RowGroup) -> None:
            _spill_group(group, columns, lengths, plan, permutation, spill, advance)

        for _ in in_order(spill_group, groups, workers):
            pass


def _spill_group(
    group: RowGroup,
    columns: Sequence[Column],
    lengths: Mapping[str, int],
    plan: ShardPlan,
    permutation: Permutation,
    spill: Spill,
    advance: Callable[[int], None],
) -> None:
    width = sum(lengths.get(column.channel, 1) for column in columns)
    first_row = group.first_row
    space = np.empty((BATCH_ROWS, width + 1), np.int32)  # one for all batches: fresh memory costs more than filling it
    for batch in group.batches():
        if not batch.num_rows:
            continue
        positions = permutation.positions(first_row, batch.num_rows)
        rows = space[: batch.num_rows]
        target = np.empty(batch.num_rows, np.int64)
        bucket_ends = np.zeros(plan.buckets, np.int64)
        _sort_by_bucket(positions, plan.shard_rows, plan.bucket_rows, bucket_ends, target, rows[:, width])
        fill(batch, columns, lengths, group, rows, target)
        spill.append(rows, bucket_ends)
        first_row += batch.num_rows
        advance(batch.num_rows)


@kernel
def _sort_by_bucket(positions, shard_rows, bucket_rows, bucket_ends, target, places):  # type: ignore[no-untyped-def]
    """Counting sort: ``target`` gets each row's rank by bucket, ``places`` (by rank) its position in the bucket."""
    per_shard = -(-shard_rows // bucket_rows)
    for i in range(len(positions)):
        shard, within = divmod(positions[i], shard_rows)
        bucket = shard * per_shard + within // bucket_rows
        target[i] = bucket
        bucket_ends[bucket] += 1
    begin = 0
    for bucket in range(len(bucket_ends)):
        count = bucket_ends[bucket]
        bucket_ends[bucket] = begin
        begin += count
    for i in range(len(positions)):
        bucket = target[i]
        target[i] = bucket_ends[bucket]
        bucket_ends[bucket] += 1
        places[target[i]] = positions[i] % shard_rows % bucket_rows


def _write(spill: Spill, layout: Layout, plan: ShardPlan, files: Sequence[Path], workers: int) -> None:
    """Pass two."""

    def encode(bucket: int) -> tuple[np.ndarray, np.ndarray, int]:
        rows = spill.read(bucket)
        order = np.empty(len(rows), np.int64)
        order[rows[:, layout.width]] = np.arange(len(rows))
        return *encode_samples(layout, rows, order, plan.samples_per_record), len(rows)

    with (
        progress("writing records", plan.rows, "samples") as bar,
        closing(in_order(encode, range(plan.buckets), workers)) as encoded,
    ):
        for path in files:
            ends = [np.zeros(1, np.int64)]
            with path.open("wb") as file:
                for data, record_ends, rows in islice(encoded, plan.buckets_per_shard):
                    ends.append(file.tell() + record_ends)
                    file.write(data.data)
                    bar.advance(rows)
            with index_path(path).open("wb") as file:
                np.save(file, np.concatenate(ends))
