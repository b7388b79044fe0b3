"""The second pass: statistics of the training rows by partition, merged in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.tabular.conversion import hashes
from components.datasets.tabular.entries import Numeric
from components.datasets.tabular.rows import GROUP, LABEL
from components.datasets.tabular.schema import SPLITS, Source
from components.datasets.tabular.splits import SPLIT, TIME, Cuts
from components.feature_spec.spec import TRAIN
from components.random_draws import draws

# Medians and quantiles are exact up to this many training rows; beyond, a random sample of this size estimates them.
SAMPLE = 262_144
_STREAM = 4


@dataclass(frozen=True)
class Partition:
    """A partition file.

    Attributes:
        first_row: its first row's number among those of all partitions.
        cuts: the times that divide the rows; None if the file itself has their splits.
    """

    path: Path
    first_row: int
    cuts: Cuts | None = None

    def rows_of(self, split: str) -> np.ndarray:
        """The mask of a split's rows, bool."""
        name = SPLIT if self.cuts is None else TIME
        column = pq.read_table(self.path, columns=[name])[name].to_numpy()
        places = column if self.cuts is None else self.cuts.places(column)
        return places == SPLITS.index(split)

    def train_rows(self, columns: Sequence[str]) -> pa.Table:
        return pq.read_table(self.path, columns=list(columns)).filter(pa.array(self.rows_of(TRAIN)))


@dataclass
class NumberStatistics:
    """Statistics of the training rows' numbers in a column.

    Attributes:
        mean: mean of the known values, after the logarithm if enabled.
        squares: sum of their squared deviations from the mean, after the logarithm if enabled.
        values: a sample, without the logarithm, in ascending order of the rows' draws, NaN where missing.
    """

    known: int = 0
    missing: int = 0
    mean: float = 0.0
    squares: float = 0.0
    values: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def deviation(self) -> float:
        """The standard deviation; 0 for a constant."""
        return float(np.sqrt(self.squares / self.known)) if self.known else 0.0

    @property
    def sample(self) -> np.ndarray:
        """The known values of the sample."""
        return self.values[~np.isnan(self.values)]


@dataclass
class Survey:
    """Statistics of one partition, or of several.

    Attributes:
        positive: of these, rows with a label above 0.
        groups: keys of the groups of each split, int64, sorted.
        draws: uint64, one for each sampled row, ascending.
    """

    rows: np.ndarray
    positive: np.ndarray
    groups: list[np.ndarray]
    draws: np.ndarray
    numbers: dict[str, NumberStatistics]


def logarithm(values: np.ndarray) -> np.ndarray:
    """sign(x) ln(1 + |x|)"""
    return np.sign(values) * np.log1p(np.abs(values))


def survey(partition: Partition, sources: Sequence[Source], seed: int) -> Survey:
    """Reads the labels, the groups and the numbers of a partition."""
    file = pq.ParquetFile(partition.path)
    splits = [partition.rows_of(split) for split in SPLITS]
    train = splits[SPLITS.index(TRAIN)]
    label = file.read([LABEL])[LABEL].to_numpy()
    groups = [np.zeros(0, np.int64) for _ in SPLITS]
    if GROUP in file.schema_arrow.names:
        keys = hashes(file.read([GROUP])[GROUP].combine_chunks()).view(np.int64)
        groups = [np.unique(keys[part]) for part in splits]
    rows = partition.first_row + np.flatnonzero(train)
    drawn = draws(seed, _STREAM, rows, np.zeros_like(rows), np.zeros_like(rows), 1)[:, 0]
    chosen = np.argsort(drawn, kind="stable")[:SAMPLE]
    numbers = {}
    for source in sources:
        if isinstance(source.treatment, Numeric):
            values = file.read([source.name])[source.name].to_numpy()[train]
            known = values[~np.isnan(values)]
            missing = len(values) - len(known)
            known = logarithm(known) if source.treatment.log else known
            mean = float(known.mean()) if len(known) else 0.0
            squares = float(((known - mean) ** 2).sum())
            numbers[source.name] = NumberStatistics(len(known), missing, mean, squares, values[chosen])
    return Survey(
        np.array([part.sum() for part in splits]),
        np.array([int((label[part] > 0).sum()) for part in splits]),
        groups,
        drawn[chosen],
        numbers,
    )


def merge(first: Survey, second: Survey) -> Survey:
    """Merges two surveys; moments as in Chan, Golub and LeVeque (1979)."""
    drawn = np.concatenate([first.draws, second.draws])
    chosen = np.argsort(drawn, kind="stable")[:SAMPLE]
    numbers = {}
    for name, a in first.numbers.items():
        b = second.numbers[name]
        known = a.known + b.known
        apart = b.mean - a.mean
        numbers[name] = NumberStatistics(
            known,
            a.missing + b.missing,
            a.mean + apart * b.known / max(known, 1),
            a.squares + b.squares + apart**2 * a.known * b.known / max(known, 1),
            np.concatenate([a.values, b.values])[chosen],
        )
    groups = [np.union1d(one, other) for one, other in zip(first.groups, second.groups, strict=True)]
    return Survey(first.rows + second.rows, first.positive + second.positive, groups, drawn[chosen], numbers)


def find_group(partitions: Sequence[Partition], key: int) -> str:
    """The value of the group with this key, for messages."""
    for partition in partitions:
        groups = pc.unique(pq.read_table(partition.path, columns=[GROUP])[GROUP].combine_chunks())
        found = np.flatnonzero(hashes(groups).view(np.int64) == key)
        if len(found):
            return str(groups[int(found[0])].as_py())
    return "?"
