"""Batches of samples from record files, the same for any number of ranks and any starting point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.feature_spec.spec import FILENAME
from components.records.decoding import layout_of
from components.records.files import RecordFile, open_files

_BLOCK_ROWS = 256


class _Block(NamedTuple):
    """A run of whole records, the unit of shuffling: one prebatched record, or up to 256 plain ones."""

    file: RecordFile
    begin: int
    end: int
    rows: int


class Records:
    """The samples of one split.

    Each epoch has its own order of blocks, drawn from (seed, epoch); within a block the samples keep the order of the
    file, where the converter has shuffled them. Global batch t is samples [t * G, (t + 1) * G) of that order, and a
    rank takes its contiguous share of it, so what a step trains on does not depend on how many ranks share it. Only
    the bytes of the rank's own share are read. Every record read is checked, its checksum and every value.

    Args:
        spec: the feature specification, with its folder.
        split: "train" or "test".
        features: names to decode, others are skipped; None is every feature of the split.
        cache_bytes: decoded samples to keep in memory for later epochs, at most this many bytes.

    Raises:
        KfrecError: a file is missing or damaged, or a name is unknown.
    """

    def __init__(
        self, spec: FeatureSpec, split: str, features: Sequence[str] | None = None, *, cache_bytes: int = 0
    ) -> None:
        files = open_files(spec, split)
        held = spec.sources[split].features
        names = held if features is None else tuple(features)
        for name in names:
            if name not in held:
                raise KfrecError(
                    f"{spec.folder / FILENAME}: split {split} has no feature {name}; it has {', '.join(held)}"
                )
        self.split = split
        self.rows = sum(file.rows for file in files)
        self._layout = layout_of(spec, names)
        self._blocks = [block for file in files for block in _blocks(file)]
        self._block_rows = np.array([block.rows for block in self._blocks], np.int64)
        self._cache: dict[int, np.ndarray] = {}
        self._cache_room = cache_bytes

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
            rank: which share, below ``size``.
            size: number of shares; a batch that it does not divide is split as evenly as possible.
            seed: of the order of blocks; None is the order of the files.
            epoch: number of the epoch, part of the seed.
            first_step: global batches to leave out at the start; nothing of them is read.
            drop_remainder: leave out a last batch that is not full.

        Yields:
            Feature name to int32 array: [n] for single values, [n, length] for lists, left-padded with 0.

        Raises:
            KfrecError: a record that is corrupt or breaks the specification.
        """
        order = np.arange(len(self._blocks))
        if seed is not None:
            order = np.random.default_rng([seed, epoch]).permutation(order)
        ends = np.cumsum(self._block_rows[order])
        recent: dict[int, np.ndarray] = {}  # a block of which the last batch used a part; the next uses more of it
        for step in range(first_step, self.steps(global_batch_size, drop_remainder)):
            first = step * global_batch_size
            count = min(global_batch_size, self.rows - first)
            begin, end = first + count * rank // size, first + count * (rank + 1) // size
            out = np.empty((end - begin) * self._layout.width, np.int32)
            row = begin
            position = int(np.searchsorted(ends, begin, side="right"))
            while row < end:
                block = int(order[position])
                block_begin = int(ends[position] - self._block_rows[block])
                upto = min(end, int(ends[position]))
                self._read(block, row - block_begin, upto - block_begin, out, row - begin, end - begin, recent)
                row = upto
                position += 1
            yield self._named(out, end - begin)

    def _read(
        self, number: int, begin: int, end: int, out: np.ndarray, row: int, rows: int, recent: dict[int, np.ndarray]
    ) -> None:
        """Puts samples [begin, end) of a block at ``row`` of the flat ``out``, which holds ``rows`` samples."""
        block = self._blocks[number]
        starts = self._layout.starts(rows)
        decoded = self._cache.get(number)
        if decoded is None:
            decoded = recent.get(number)
        if decoded is None:
            plain = block.file.first_rows is None
            keeps = block.rows * self._layout.width * 4 <= self._cache_room
            if not keeps and (plain or (begin, end) == (0, block.rows)):
                records = (block.begin + begin, block.begin + end) if plain else (block.begin, block.end)
                block.file.decode(self._layout, *records, out, starts, row)
                return
            decoded = np.empty(block.rows * self._layout.width, np.int32)
            block.file.decode(self._layout, block.begin, block.end, decoded, self._layout.starts(block.rows), 0)
            if keeps:
                self._cache[number] = decoded
                self._cache_room -= decoded.nbytes
            else:
                recent.clear()
                recent[number] = decoded
        there = self._layout.starts(block.rows)
        for index, length in enumerate(self._layout.lengths):
            source = decoded[there[index] + begin * length : there[index] + end * length]
            out[starts[index] + row * length :][: len(source)] = source

    def _named(self, out: np.ndarray, rows: int) -> dict[str, np.ndarray]:
        starts = self._layout.starts(rows)
        batch = {}
        for index, feature in enumerate(self._layout.features):
            values = out[starts[index] : starts[index + 1]]
            batch[feature.name] = values if feature.length is None else values.reshape(rows, feature.length)
        return batch


def _blocks(file: RecordFile) -> Iterator[_Block]:
    records = len(file.offsets) - 1
    if file.first_rows is None:
        for begin in range(0, records, _BLOCK_ROWS):
            end = min(begin + _BLOCK_ROWS, records)
            yield _Block(file, begin, end, end - begin)
    else:
        for record, rows in enumerate(np.diff(file.first_rows)):
            yield _Block(file, record, record + 1, int(rows))
