"""Assigns rows to splits: as they are read or, for a split by time, once all rows were read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.tabular.entries import AtRandom, ByColumn, ByTime
from components.datasets.tabular.schema import SPLITS, TableSchema
from components.errors import KfrecError
from components.feature_spec.spec import TEST, TRAIN, VALIDATION
from components.random_draws import draws
from components.workflows.quarantine import Refusals
from components.workflows.times import Times
from components.workflows.values import is_among, texts

# Columns of a partition beside the features; no feature's name has a dot. A split is its place in SPLITS, int8.
SPLIT, TIME = ".split", ".time"
# The random stream that splits rows and groups.
_STREAM = 3


class Splitter:
    """Assigns rows as they are read."""

    def __init__(self, schema: TableSchema, place: str, seed: int) -> None:
        self._schema, self._split, self._place, self._seed = schema, schema.split, place, seed
        self.times = (
            Times(self._split.column, self._split.format, f"{place}: split")
            if isinstance(self._split, ByTime)
            else None
        )
        listed = (
            {TEST: self._split.test, VALIDATION: self._split.validation} if isinstance(self._split, ByColumn) else {}
        )
        self._unseen = [(split, value) for split, values in listed.items() for value in values]

    def mark(self, rows: pa.RecordBatch, file_split: str, keys: np.ndarray, refusals: Refusals) -> tuple[str, pa.Array]:
        """The name of the split column, and the column.

        Args:
            keys: int64, of rows or their groups; a random split keeps equal keys together.

        Raises:
            KfrecError: a value is in no list of the schema.
        """
        split, missing = self._split, self._schema.missing
        if isinstance(split, ByColumn):
            return SPLIT, pa.array(self._by_column(rows.column(split.column), split, refusals))
        if isinstance(split, ByTime):
            assert self.times is not None
            found, wrong = self.times.read(rows.column(split.column), missing)
            refusals.add(wrong | np.isnan(found), split.column, f"not {self.times.what}")
            return TIME, pa.array(found)
        if isinstance(split, AtRandom):
            drawn = draws(self._seed, _STREAM, keys, np.zeros_like(keys), np.zeros_like(keys), 1)[:, 0]
            test = drawn < np.uint64(split.share * 2.0**64)
            later = drawn < np.uint64((split.share + (split.validation_share or 0.0)) * 2.0**64)
            return SPLIT, pa.array(_places(test, later))
        return SPLIT, pa.array(np.full(len(rows), SPLITS.index(file_split or TRAIN), np.int8))

    def _by_column(self, column: pa.Array, split: ByColumn, refusals: Refusals) -> np.ndarray:
        missing = self._schema.missing
        self._unseen = [(name, value) for name, value in self._unseen if not is_among(column, [value], missing).any()]
        test, validation = is_among(column, split.test, missing), np.zeros(len(column), bool)
        if split.validation:
            validation = is_among(column, split.validation, missing)
        absent = pc.is_null(texts(column, missing)).to_numpy(zero_copy_only=False)
        refusals.add(absent, split.column, "missing")
        unknown = ~test & ~validation & ~absent
        if split.train:
            unknown &= ~is_among(column, split.train, missing)
            if unknown.any():
                raise KfrecError(
                    f"{self._place}: split: column {split.column} is {column[int(np.argmax(unknown))].as_py()!r} in a "
                    f"row, which none of {', '.join(self._schema.splits)} lists; add it to one of them"
                )
        return _places(test, validation)

    def require_seen(self) -> None:
        """Checks, once all rows were read, that every value of the test and validation splits occurred."""
        for name, value in self._unseen[:1]:
            assert isinstance(self._split, ByColumn)
            raise KfrecError(
                f"{self._place}: split: {name}: no row has {value!r} in column {self._split.column}; correct it"
            )


def _places(test: np.ndarray, validation: np.ndarray) -> np.ndarray:
    """The splits of rows, int8, from masks; a row of both is a test row."""
    places = np.where(validation, SPLITS.index(VALIDATION), SPLITS.index(TRAIN)).astype(np.int8)
    places[test] = SPLITS.index(TEST)
    return places


class Cuts(NamedTuple):
    """The times that divide the rows of a split by time.

    Attributes:
        validation: time of the first validation row; that of the first test row if there are none.
        test: time of the first test row.
    """

    validation: float
    test: float

    def places(self, found: np.ndarray) -> np.ndarray:
        """The splits of rows with these times, int8."""
        return _places(found >= self.test, found >= self.validation)


def find_cuts(split: ByTime, times: Times, partitions: Sequence[Path], place: str) -> Cuts:
    """The cuts of a split by time.

    Args:
        partitions: files with the column TIME; 8 bytes of memory a row.

    Raises:
        KfrecError: a time of the schema is not a time, or no row is left of a cut.
    """
    if None not in (split.since, split.validation_since):
        test, first = (
            times.require_kind(split.since, "since"),
            times.require_kind(split.validation_since, "validation_since"),
        )
    else:
        found = np.concatenate([pq.read_table(path, columns=[TIME])[TIME].to_numpy() for path in partitions])
        test = times.require_kind(split.since, "since") if split.since is not None else 0.0
        if split.share is not None:
            test = _newest(found, split.share, f"newest {split.share:.0%}", split.column, place)
        first = test
        if split.validation_since is not None:
            first = times.require_kind(split.validation_since, "validation_since")
        elif split.validation_share is not None:
            older, rows = found[found < test], split.validation_share * len(found)
            which = f"{split.validation_share:.0%} before the test rows"
            first = _newest(older, min(rows / max(len(older), 1), 1.0), which, split.column, place)
    if first > test or (first == test and split.validation_since is not None):
        raise KfrecError(
            f"{place}: split: validation_since: {split.validation_since!r} is not before the first test row; give an "
            "earlier time"
        )
    return Cuts(first, test)


def _newest(found: np.ndarray, share: float, which: str, column: str, place: str) -> float:
    """The time from which a share of the rows is, at least; rows of equal time stay together."""
    last = np.partition(found, cut)[cut] if (cut := int((1 - share) * len(found))) < len(found) else 0.0
    if len(found) and last == found.min():
        raise KfrecError(
            f"{place}: split: no row is older than the {which} of column {column}, so none is left to train on; split "
            "in another way"
        )
    return float(last)
