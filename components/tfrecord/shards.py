"""Where a row goes: its shuffled position, and the file, record and bucket of that.

The shuffle has random access: a seeded bijection of [0, rows) in constant memory. A Feistel network permutes the
smallest square power of two that is not below ``rows``; a row that lands outside is sent through again until it lands
inside (cycle walking), which keeps the map one to one.
J. Black, P. Rogaway: Ciphers with Arbitrary Finite Domains, CT-RSA 2002.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from components.errors import KfrecError
from components.native.compiled import kernel
from components.parameters import PREBATCH_SIZES

_ROUNDS = 6
# Fresh memory costs more than the computation in it, so buckets and batches are as small as their number allows.
_SMALLEST_BYTES = 4 << 20
_LARGEST_BUCKET_BYTES, _FEW_BUCKETS = 64 << 20, 128
_LARGEST_BATCH_BYTES, _FEW_BATCHES = 32 << 20, 1024
_LARGEST_RECORD_BYTES = 128 << 20


@dataclass(frozen=True)
class ShardPlan:
    """How the samples of a split are divided into files, and the files into buckets that fit in memory.

    Buckets and batches serve the conversion only: they leave no trace in the files.

    Attributes:
        bucket_rows: samples of every bucket but the last of a file; whole records.
        batch_rows: samples to read at once.
        samples_per_record: 1 for plain records.
    """

    rows: int
    shard_rows: int
    bucket_rows: int
    batch_rows: int
    samples_per_record: int

    @property
    def shards(self) -> int:
        return -(-self.rows // self.shard_rows)

    @property
    def buckets_per_shard(self) -> int:
        return -(-self.shard_rows // self.bucket_rows)

    @property
    def buckets(self) -> int:
        """Buckets of all shards; those of the last shard may be empty."""
        return self.shards * self.buckets_per_shard

    @property
    def rows_per_file(self) -> list[int]:
        return [min(self.shard_rows, self.rows - first) for first in range(0, self.rows, self.shard_rows)]

    def rows_of(self, bucket: int) -> int:
        """Samples of a bucket."""
        shard, within = divmod(bucket, self.buckets_per_shard)
        shard_rows = min(self.shard_rows, self.rows - shard * self.shard_rows)
        return min(max(shard_rows - within * self.bucket_rows, 0), self.bucket_rows)


def plan_shards(split: str, rows: int, samples_per_shard: int, prebatch_size: int, width: int) -> ShardPlan:
    """Cuts ``rows`` samples of ``width`` values into files of whole records.

    Raises:
        KfrecError: a prebatched record would be too large to hold in memory.
    """
    samples_per_record = prebatch_size or 1
    if samples_per_record * width * 4 > _LARGEST_RECORD_BYTES:
        raise KfrecError(
            f"{PREBATCH_SIZES[split]}={prebatch_size}: a record of {width} values per sample would be too large; "
            f"give at most {_LARGEST_RECORD_BYTES // (4 * width)}"
        )

    def whole_records(samples: int) -> int:
        return max(samples // samples_per_record, 1) * samples_per_record

    shard_rows = whole_records(samples_per_shard)
    # The spill indexes and reads one piece per batch and bucket: with fixed sizes their number would grow with the
    # square of the rows.
    row_bytes = 4 * width

    def size(few: int, largest: int) -> int:
        return min(max(rows * row_bytes // few, _SMALLEST_BYTES), largest) // row_bytes

    bucket_rows = min(shard_rows, whole_records(size(_FEW_BUCKETS, _LARGEST_BUCKET_BYTES)))
    batch_rows = max(size(_FEW_BATCHES, _LARGEST_BATCH_BYTES), 1)
    return ShardPlan(rows, shard_rows, bucket_rows, batch_rows, samples_per_record)


class Permutation:
    """Maps rows to shuffled positions."""

    def __init__(self, rows: int, *seed: int) -> None:
        self.rows = rows
        self._half_bits = np.uint64(max(1, -(-(rows - 1).bit_length() // 2)))
        self._keys = np.random.SeedSequence(seed).generate_state(_ROUNDS, np.uint64)

    def positions(self, first: int, count: int) -> np.ndarray:
        """Positions of the rows [first, first + count), int64 [count]."""
        positions = np.empty(count, np.int64)
        _positions(first, np.uint64(self.rows), self._half_bits, self._keys, positions)
        return positions


@kernel
def _positions(first, rows, half_bits, keys, positions):  # type: ignore[no-untyped-def]
    mask = (np.uint64(1) << half_bits) - np.uint64(1)
    for i in range(len(positions)):
        value = np.uint64(first + i)
        while True:
            left, right = value >> half_bits, value & mask
            for key in keys:
                left, right = right, left ^ (_mixed(right + key) & mask)
            value = left << half_bits | right
            if value < rows:
                break
        positions[i] = value


@kernel
def _mixed(word):  # type: ignore[no-untyped-def]
    """The finalizer of SplitMix64."""
    word = (word ^ word >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ word >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return word ^ word >> np.uint64(31)
