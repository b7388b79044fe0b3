"""Marks test rows: as they are read or, for a split by time, once all rows were read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from components.datasets.tabular.conversion import Refusals
from components.datasets.tabular.entries import AtRandom, ByColumn, ByTime
from components.datasets.tabular.schema import TableSchema
from components.datasets.tabular.values import is_among, texts, times
from components.errors import KfrecError
from components.workflows.random_draws import draws

# Columns of a partition beside the features; no feature's name has a dot.
TEST, TIME = ".test", ".time"
# The random stream that splits rows and groups.
_STREAM = 3


class Splitter:
    """Marks rows as they are read.

    Args:
        schema: defines the split.
        place: location of the schema, for messages.
        seed: seed of a random split.
    """

    def __init__(self, schema: TableSchema, place: str, seed: int) -> None:
        self._schema, self._split, self._place, self._seed = schema, schema.split, place, seed
        self._unseen = list(self._split.test) if isinstance(self._split, ByColumn) else []

    def mark(self, rows: pa.RecordBatch, file_split: str, keys: np.ndarray, refusals: Refusals) -> tuple[str, pa.Array]:
        """The name of the split column, and the column.

        Args:
            rows: rows of one table.
            file_split: split of that table, where files decide.
            keys: int64, of rows or their groups; a random split keeps equal keys together.
            refusals: collect the rows of unknown split.

        Raises:
            KfrecError: a value is in neither list of the schema.
        """
        split, missing = self._split, self._schema.missing
        if isinstance(split, ByColumn):
            return TEST, pa.array(self._by_column(rows.column(split.column), split, refusals))
        if isinstance(split, ByTime):
            found, wrong = times(rows.column(split.column), missing)
            refusals.add(wrong | np.isnan(found), split.column, "no time")
            return TIME, pa.array(found)
        if isinstance(split, AtRandom):
            drawn = draws(np, self._seed, _STREAM, keys, np.zeros_like(keys), np.zeros_like(keys), 1)[:, 0]
            return TEST, pa.array(drawn < np.uint64(split.share * 2.0**64))
        return TEST, pa.array(np.full(len(rows), file_split == "test"))

    def _by_column(self, column: pa.Array, split: ByColumn, refusals: Refusals) -> np.ndarray:
        missing = self._schema.missing
        self._unseen = [value for value in self._unseen if not is_among(column, [value], missing).any()]
        test = is_among(column, split.test, missing)
        absent = pc.is_null(texts(column, missing)).to_numpy(zero_copy_only=False)
        refusals.add(absent, split.column, "missing")
        unknown = ~test & ~absent
        if split.train:
            unknown &= ~is_among(column, split.train, missing)
            if unknown.any():
                raise KfrecError(
                    f"{self._place}: split: column {split.column} is {column[int(np.argmax(unknown))].as_py()!r} in a "
                    "row, which neither train nor test lists; add it to one of them"
                )
        return test

    def require_seen(self) -> None:
        """Checks, once all rows were read, that every value of the test split occurred.

        Raises:
            KfrecError: one is absent.
        """
        if self._unseen and isinstance(self._split, ByColumn):
            raise KfrecError(
                f"{self._place}: split: test: no row has {self._unseen[0]!r} in column {self._split.column}; correct it"
            )


def threshold(split: ByTime, partitions: Sequence[Path], place: str) -> float:
    """The time from which rows are test rows.

    Args:
        split: the split by time.
        partitions: files with the column TIME; 8 bytes of memory a row.
        place: location of the schema, for messages.

    Raises:
        KfrecError: the schema's time is not a time, or all rows have the same time.
    """
    if split.since is not None:
        since, wrong = times(pa.array([str(split.since)]), ())
        if wrong[0]:
            raise KfrecError(f"{place}: split: since: {split.since!r} is not a time; write it as 2013-11-01 12:00:00")
        return float(since[0])
    found = np.concatenate([pq.read_table(path, columns=[TIME])[TIME].to_numpy() for path in partitions])
    assert split.share is not None
    last = np.partition(found, place_of := int((1 - split.share) * len(found)))[place_of] if len(found) else 0.0
    if len(found) and last == found.min():
        raise KfrecError(
            f"{place}: split: no row is older than the newest {split.share:.0%} of column {split.column}, so none is "
            "left to train on; split in another way"
        )
    return float(last)
