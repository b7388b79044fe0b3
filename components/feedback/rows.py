"""Served rows of one model, with their labels and columns as served, and as raw files for a training."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from components import registry
from components.datasets.definition import LabelledRows
from components.scoring import RawModel
from components.served_rows.schema import SCHEMA
from components.served_rows.table import read_served
from components.workflows.values import array_of

_DAY = 86_400
LABEL = "label"
# Of data sets whose raw files are no rows.
_PLAIN = LabelledRows(LABEL, "served_at", "request_id")


@dataclass(frozen=True)
class Group:
    """The served rows of a version and a day.

    Attributes:
        day: such as "2026-11-28", in UTC.
        scored: rows with a score; of lists none.
        listed: items of lists.
    """

    version: str
    day: str
    scored: pd.DataFrame
    listed: pd.DataFrame

    @property
    def served(self) -> int:
        return len(self.scored) + len(self.listed)

    @property
    def matured(self) -> pd.DataFrame:
        """The scored rows with a label."""
        return self.scored[self.scored[LABEL].notna()]

    @property
    def matured_items(self) -> pd.DataFrame:
        return self.listed[self.listed[LABEL].notna()]


def served_rows(location: str, now: float, days: int) -> pd.DataFrame:
    """Served rows of the last days as a frame of the columns of ``components.served_rows.schema.SCHEMA``.

    The time is in microseconds since 1970. Rows after ``now`` are left out.

    Args:
        now: seconds since 1970.
        days: number of days, that of ``now`` included.
    """
    last = datetime.fromtimestamp(now, UTC).date()
    first = datetime.fromtimestamp(now - (days - 1) * _DAY, UTC).date()
    tables = [SCHEMA.empty_table(), *read_served(location, first)]
    table = pa.concat_tables(tables)
    table = table.set_column(table.schema.get_field_index("time"), "time", table["time"].cast(pa.int64()))
    frame: pd.DataFrame = table.to_pandas()
    frame = frame[frame["time"] <= now * 1e6].reset_index(drop=True)
    frame["day"] = pd.to_datetime(frame["time"], unit="us").dt.strftime("%Y-%m-%d")
    assert not len(frame) or frame["day"].max() <= last.isoformat()
    return frame


def groups_of(rows: pd.DataFrame) -> list[Group]:
    """The rows by version and day, in order."""
    found = []
    for key, group in rows.groupby(["version", "day"], sort=True):
        version, day = (str(part) for part in key)
        is_list = group["rank"].notna()
        found.append(Group(version, day, group[~is_list], group[is_list]))
    return sorted(found, key=lambda group: (int(group.version) if group.version.isdigit() else 0, group.day))


def columns_of(rows: pd.DataFrame, names: Sequence[str]) -> dict[str, pa.Array]:
    """The raw columns of scored rows, as they came; null where a row has none."""
    bodies: list[dict[str, Any]] = [json.loads(text) for text in rows["columns"]]
    return {name: array_of(name, [body.get(name) for body in bodies]) for name in names}


def codes_of(values: pd.Series) -> np.ndarray | None:
    """Whole numbers that tell the values apart, int64 ``[n]``; None if one is null."""
    codes, _ = pd.factorize(values)
    return None if (codes < 0).any() else np.asarray(codes, np.int64)


def is_raw(model: RawModel) -> bool:
    """Whether labelled rows are raw files of the model's data set."""
    return registry.dataset(model.dataset).labelled_rows is not None


def write_training_rows(rows: pd.DataFrame, model: RawModel, folder: Path) -> int:
    """Writes a parquet file for each day, and what belongs beside them; returns the number of rows.

    Args:
        rows: scored ones with labels.
    """
    rows = rows[rows["columns"].notna()]
    names = [column.name for column in model.columns]
    define = registry.dataset(model.dataset).labelled_rows
    form = define(model.model.spec, names) if define else _PLAIN
    for name, text in form.files.items():
        (folder / name).write_text(text)
    for day, part in rows.groupby("day", sort=True):
        columns = columns_of(part, names)
        if form.group and form.group not in columns:
            columns[form.group] = pa.array(part["request_id"], pa.string())
        columns[form.time] = pa.array(part["time"], pa.timestamp("us"))
        columns[form.label] = pa.array(part[LABEL].astype("int8"))
        pq.write_table(pa.table(columns), folder / f"labelled-{day}.parquet")
    return len(rows)
