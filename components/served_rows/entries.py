"""What was answered, as rows of the table of served rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from components.served_rows.schema import SCHEMA

# Variant of what is no answer of a server.
BATCH = "batch"
Values: TypeAlias = pa.Array | pa.ChunkedArray | np.ndarray


@dataclass(frozen=True)
class Origin:
    """What the rows of an answer have in common.

    Attributes:
        time: of the answer.
        model, version: what answered; the name as in the registry, or the folder.
        variant: such as "champion".
    """

    request_id: str
    time: datetime
    model: str
    version: str
    variant: str

    def table(self, rows: np.ndarray | pa.Array, **columns: Any) -> pa.Table:
        """Rows of SCHEMA.

        Args:
            rows: of the request, ``[n]``.
            columns: values of further columns by name, ``[n]``; missing ones and None are null.
        """
        count = len(rows)
        shared = {name: pa.repeat(value, count) for name, value in vars(self).items()}
        own = {"row": pa.array(rows), **{name: values for name, values in columns.items() if values is not None}}
        known = {**shared, **own}
        return pa.table(
            [known[each.name] if each.name in known else pa.nulls(count, each.type) for each in SCHEMA],
            names=SCHEMA.names,
        ).cast(SCHEMA)


@dataclass(frozen=True)
class ScoredRows:
    """Scored rows; see ``components.served_rows.log.Entry``.

    Attributes:
        columns: raw columns by name, ``[n, ...]``.
        probabilities: of the label 1, ``[n]``; None for models without.
        user, item: names of the columns of users and candidates; empty if the model reads none.
        first: row of the request that is the first one here.
    """

    origin: Origin
    columns: Mapping[str, Values]
    probabilities: Values | None
    user: str = ""
    item: str = ""
    first: int = 0

    @property
    def time(self) -> datetime:
        """When they were answered."""
        return self.origin.time

    @property
    def rows(self) -> int:
        """Their number."""
        return len(next(iter(self.columns.values()), ()))

    def table(self) -> pa.Table:
        """The rows, of SCHEMA."""
        names = list(self.columns)
        values = zip(*map(_listed, self.columns.values()), strict=True)
        written = [json.dumps(dict(zip(names, row, strict=True)), default=_as_text) for row in values]
        return self.origin.table(
            np.arange(self.first, self.first + self.rows, dtype=np.int32),
            columns=pa.array(written, pa.string()),
            probability=self.probabilities,
            **{name: _ids(self.columns.get(column)) for name, column in (("user", self.user), ("item", self.item))},
        )


@dataclass(frozen=True)
class ListedItems:
    """Items of lists; see ``components.served_rows.log.Entry``.

    Attributes:
        lists: as of ``components.scoring.recommend.Recommended``.
        owners: row of the request that each item was listed for, ``[len(lists)]``.
    """

    origin: Origin
    lists: pa.Table
    owners: np.ndarray

    @property
    def time(self) -> datetime:
        """When they were answered."""
        return self.origin.time

    @property
    def rows(self) -> int:
        """The number of items."""
        return len(self.lists)

    def table(self) -> pa.Table:
        """The rows, of SCHEMA."""
        user, rank, item, likelihood = self.lists.columns[:4]
        return self.origin.table(self.owners, user=user, rank=rank, item=item, likelihood=likelihood)


def _listed(values: Values) -> list[Any]:
    listed: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
    return listed


def _as_text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _ids(values: Values | None) -> pa.Array | None:
    if values is None:
        return None
    return pa.array([None if each is None else _as_text(each) for each in _listed(values)], pa.string())
