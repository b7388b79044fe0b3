"""How the samples of an epoch are assigned to batches and ranks, so that a node needs only its own part of the files.

A split of N samples in file order is cut into L = gcd(G, 8) lanes of equal length, G being the global batch size. A
full global batch takes G / L samples from each lane, in the order of the lanes; the last, smaller batch takes the
remainder of the lanes. Blocks are shuffled within their lane. A rank's share of a batch is contiguous, so the rank
reads only the lanes that its share overlaps: each of two nodes needs half of the files. The samples of a batch depend
on the seed, the epoch and G alone, never on the number of ranks. Drawing from lanes is as random as drawing from the
whole split, because the converter shuffles the samples globally.

There are floor(N / G) full batches, because every lane has at least floor(N / L) samples, and floor(N / G) * G / L is
an integer not above N / L.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

MOST_LANES = 8


@dataclass(frozen=True)
class Share:
    """A rank's part of a lane.

    Attributes:
        begin: first sample of the lane, in file order.
        end: one past its last sample.
        width: samples that a full global batch takes from the lane.
        low: the rank's first of these.
        high: one past the rank's last.
    """

    lane: int
    begin: int
    end: int
    width: int
    low: int
    high: int

    def rows(self, step: int) -> tuple[int, int]:
        """The rank's samples in a step: begin and end in the lane's order."""
        first = step * self.width
        count = min(self.width, self.end - self.begin - first)
        return first + count * self.low // self.width, first + count * self.high // self.width


def lanes_of(global_batch_size: int) -> int:
    """Number of lanes."""
    return math.gcd(global_batch_size, MOST_LANES)


def shares(rows: int, global_batch_size: int, rank: int, size: int, lanes: int) -> list[Share]:
    """The parts of the lanes that a rank reads, in their order within its share of a batch.

    Args:
        global_batch_size: samples of a step over all ranks; ``lanes`` divides it.
    """
    width = global_batch_size // lanes
    first, last = global_batch_size * rank // size, global_batch_size * (rank + 1) // size
    result = []
    for lane in range(lanes):
        low, high = (min(max(edge - lane * width, 0), width) for edge in (first, last))
        if low < high:
            result.append(Share(lane, rows * lane // lanes, rows * (lane + 1) // lanes, width, low, high))
    return result


def rows_before(rows: int, global_batch_size: int, rank: int, size: int, lanes: int, step: int) -> int:
    """Samples of a step that precede a rank's share of them, those of the ranks before it.

    Args:
        rows, global_batch_size, rank, size, lanes: as for ``shares``.
    """
    earlier = (share for other in range(rank) for share in shares(rows, global_batch_size, other, size, lanes))
    return sum(end - begin for begin, end in (share.rows(step) for share in earlier))


def needed_files(
    rows_per_file: list[int],
    global_batch_size: int,
    ranks: Iterator[int] | list[int] | range,
    size: int,
    part: tuple[float, float] = (0.0, 1.0),
) -> frozenset[int]:
    """Which files of a training split these ranks read, for any seed and epoch.

    Args:
        rows_per_file: samples of each file, in order.
        part: begin and end of the samples that train, as fractions of the split.
    """
    first, last = rows_of_part(sum(rows_per_file), part)
    needed: set[int] = set()
    for rank in ranks:
        for share in shares(last - first, global_batch_size, rank, size, lanes_of(global_batch_size)):
            needed |= files_of_rows(rows_per_file, first + share.begin, first + share.end)
    return frozenset(needed)


def rows_of_part(rows: int, part: tuple[float, float]) -> tuple[int, int]:
    """The samples ``[begin, end)`` of a part, given as fractions of ``rows``."""
    begin, end = (round(rows * share) for share in part)
    return begin, end


def files_of_rows(rows_per_file: list[int], begin: int, end: int) -> frozenset[int]:
    """Which files hold the samples ``[begin, end)`` of a split."""
    if begin == end:
        return frozenset()
    first, last = np.searchsorted(np.cumsum(rows_per_file), (begin, end - 1), side="right")
    return frozenset(range(int(first), int(last) + 1))
