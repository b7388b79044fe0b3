"""Batches of samples from record files, the same for any number of ranks and any starting point."""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.native import arrays
from components.records.decoding import copy_samples
from components.records.files import RecordFile, open_files
from components.records.lanes import Share, lanes_of, rows_of_part, shares
from components.records.layout import layout_of

_BLOCK_ROWS = 256


class _Block(NamedTuple):
    """A run of whole records, the unit of shuffling: one prebatched record, or up to 256 plain ones."""

    file: RecordFile
    begin: int
    end: int
    rows: int


@dataclass
class _Lane:
    """A rank's part of a lane in one epoch.

    Attributes:
        blocks: block number of each piece, in the epoch's order.
        skipped: samples of the block before the piece; a lane may begin within a block.
        ends: cumulative samples of the lane at the end of each piece.
        held: number of the decoded block that the last batch used partly, or -1; the next batch continues it.
        space: buffer of that block, reused for all blocks, because fresh memory costs more than filling it.
    """

    share: Share
    blocks: np.ndarray
    skipped: np.ndarray
    ends: np.ndarray
    held: int = -1
    space: np.ndarray = field(default_factory=lambda: np.empty(0, np.int32))


class Records:
    """The samples of one split.

    ``components.records.lanes`` assigns an epoch's samples to global batches, in an order of blocks drawn from
    (seed, epoch, lane); within a block the samples keep the order of the file, which the converter has shuffled. The
    samples of a step do not depend on the number of ranks. A rank reads only the bytes of its own share. The checksum
    and every value of each record are checked.

    Args:
        split: "train", "test" or "validation".
        features: names to decode, others are skipped; None is every feature of the split.
        cache_bytes: decoded samples to keep in memory for later epochs, at most this many bytes.
        files: indices of the files to read (see ``components.records.lanes.needed_files``); the others may be
            absent; None is all.
        threads: number of decoding threads, each taking whole lanes; 0 is one per core.
        part: begin and end of the samples to read, as fractions of the split in file order.

    Attributes:
        threads: largest number of decoding threads.
        rows: samples of the split, or of its part.
        first_record_rows: samples in the first record; 0 if there is none.

    Raises:
        KfrecError: a file is missing or damaged, or a name is unknown.
    """

    def __init__(
        self,
        spec: FeatureSpec,
        split: str,
        features: Sequence[str] | None = None,
        *,
        cache_bytes: int = 0,
        files: Container[int] | None = None,
        threads: int = 0,
        part: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        opened = open_files(spec, split, files)
        held = spec.sources[split].features
        names = held if features is None else tuple(features)
        for name in names:
            if name not in held:
                raise KfrecError(
                    f"{spec.folder / FILENAME}: split {split} has no feature {name}; it has {', '.join(held)}"
                )
        self.split = split
        self.threads = threads or len(os.sched_getaffinity(0))
        total = sum(file.rows for file in opened)
        self._first, end = rows_of_part(total, part)
        self.rows = end - self._first
        self.count = sum(file.records for file in opened)
        self.first_record_rows = next((int(file.record_rows(0, 1)[0]) for file in opened if file.records), 0)
        self._layout = layout_of(spec, names)
        self._starts = lru_cache(64)(self._layout.starts)  # called a few times per block, with few sizes
        self._blocks = [block for file in opened for block in _blocks(file)]
        self._block_ends = np.cumsum([block.rows for block in self._blocks], dtype=np.int64)
        self._cache: dict[int, np.ndarray] = {}
        self._cache_room = cache_bytes
        self._cache_lock = threading.Lock()

    def steps(self, global_batch_size: int, drop_remainder: bool = False) -> int:
        """Global batches in an epoch."""
        full, remainder = divmod(self.rows, global_batch_size)
        return full + (1 if remainder and not drop_remainder else 0)

    def batches(
        self,
        global_batch_size: int,
        *,
        rank: int = 0,
        size: int = 1,
        seed: int | None = None,
        epoch: int = 0,
        first_step: int = 0,
        drop_remainder: bool = False,
    ) -> Iterator[dict[str, np.ndarray]]:
        """This rank's share of every global batch of an epoch, from ``first_step`` on.

        Args:
            global_batch_size: samples of a step over all ranks; the last step has the rest.
            rank: index of the share, below ``size``.
            size: number of shares; a batch that it does not divide is split as evenly as possible.
            seed: seed of the block order; None is file order.
            first_step: global batches to skip at the start, without reading them.

        Yields:
            Feature name to int32 or float32 array: [n] for single values, [n, length] for lists, left-padded with 0.

        Raises:
            KfrecError: a record that is corrupt or breaks the specification.
        """
        count = 1 if seed is None else lanes_of(global_batch_size)
        lanes = [
            self._lane(share, None if seed is None else np.random.default_rng([seed, epoch, share.lane]))
            for share in shares(self.rows, global_batch_size, rank, size, count)
        ]
        # Decoding releases the GIL, and lanes share only the cache.
        threads = min(len(lanes), self.threads)
        with ThreadPoolExecutor(max(threads - 1, 1), "decode") as pool:
            for step in range(first_step, self.steps(global_batch_size, drop_remainder)):
                wanted = [lane.share.rows(step) for lane in lanes]
                firsts = [0, *accumulate(end - begin for begin, end in wanted)]
                rows = firsts.pop()
                out = arrays.empty([int(self._starts(rows)[-1])], np.int32)
                parts = iter(list(zip(lanes, wanted, firsts, strict=True)))  # an idle thread takes the next one
                fill = partial(self._fill, parts, out=out, rows=rows)
                others = [pool.submit(fill) for _ in range(threads - 1)]
                fill()
                for other in others:
                    other.result()
                yield self._named(out, rows)

    def _lane(self, share: Share, random: np.random.Generator | None) -> _Lane:
        """The pieces of blocks of a lane, shuffled if a seed is given."""
        begin, end = self._first + share.begin, self._first + share.end
        first = int(np.searchsorted(self._block_ends, begin, side="right"))
        last = int(np.searchsorted(self._block_ends, end, side="left"))
        blocks = np.arange(first, min(last + 1, len(self._blocks)))
        begins = np.concatenate(([0], self._block_ends))[blocks]
        skipped = np.maximum(begin - begins, 0)
        rows = np.minimum(self._block_ends[blocks], end) - begins - skipped
        order = np.arange(len(blocks)) if random is None else random.permutation(len(blocks))
        return _Lane(share, blocks[order], skipped[order], np.cumsum(rows[order]))

    def _fill(self, parts: Iterator[tuple[_Lane, tuple[int, int], int]], out: np.ndarray, rows: int) -> None:
        """Fills parts of a batch of ``rows``: a lane, begin and end in its order, and the first row in the batch."""
        for lane, (begin, end), first in parts:
            self._fill_part(lane, begin, end, out, first, rows)

    def _fill_part(self, lane: _Lane, begin: int, end: int, out: np.ndarray, first: int, rows: int) -> None:
        row = begin
        position = int(np.searchsorted(lane.ends, begin, side="right"))
        while row < end:
            piece_begin = int(lane.ends[position - 1]) if position else 0
            upto = min(end, int(lane.ends[position]))
            shift = int(lane.skipped[position]) - piece_begin
            block = int(lane.blocks[position])
            self._read(block, row + shift, upto + shift, out, first + row - begin, rows, lane)
            row = upto
            position += 1

    def _read(self, number: int, begin: int, end: int, out: np.ndarray, row: int, rows: int, lane: _Lane) -> None:
        """Puts samples [begin, end) of a block at ``row`` of the flat ``out``, which holds ``rows`` samples."""
        block = self._blocks[number]
        starts = self._starts(rows)
        decoded = self._cache.get(number)
        if decoded is None and lane.held == number:
            decoded = lane.space
        if decoded is None:
            plain = block.file.first_rows is None
            size = int(self._starts(block.rows)[-1])
            keeps = self._reserve(size * 4)
            if not keeps and (plain or (begin, end) == (0, block.rows)):
                records = (block.begin + begin, block.begin + end) if plain else (block.begin, block.end)
                block.file.decode(self._layout, *records, out, starts, row)
                return
            if keeps:
                decoded = np.empty(size, np.int32)
            else:
                if len(lane.space) < size:
                    lane.space = arrays.empty([size], np.int32)
                decoded = lane.space
                lane.held = -1  # until complete
            block.file.decode(self._layout, block.begin, block.end, decoded, self._starts(block.rows), 0)
            if keeps:
                self._cache[number] = decoded
            else:
                lane.held = number
        copy_samples(decoded, self._starts(block.rows), begin, end, self._layout.fields.lengths, out, starts, row)

    def _reserve(self, size: int) -> bool:
        """Reserves cache space; returns whether there is room for ``size`` bytes."""
        with self._cache_lock:
            fits = size <= self._cache_room
            self._cache_room -= size if fits else 0
        return fits

    def _named(self, out: np.ndarray, rows: int) -> dict[str, np.ndarray]:
        starts = self._starts(rows)
        batch = {}
        for index, feature in enumerate(self._layout.features):
            values = out[starts[index] :][: rows * (feature.length or 1)]
            values = values.view(np.float32) if feature.is_float else values
            batch[feature.name] = values if feature.length is None else values.reshape(rows, feature.length)
        return batch


def _blocks(file: RecordFile) -> Iterator[_Block]:
    records = file.records
    if file.first_rows is None:
        for begin in range(0, records, _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, records)
            yield _Block(file, begin, end, end - begin)
    else:
        for record, rows in enumerate(np.diff(file.first_rows)):
            yield _Block(file, record, record + 1, int(rows))
