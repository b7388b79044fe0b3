"""Labelled rows with the columns as served, in the form of the model's raw files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from components import registry
from components.datasets.definition import LabelledRows
from components.feedback.rows import LABEL, columns_of
from components.scoring import RawModel

# Of data sets whose raw files are no rows.
_PLAIN = LabelledRows(LABEL, "served_at", "request_id")


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
