"""Fitted statistics as files of the artifact: plain tables, which records and models carry along.

- ``vocabulary/clicks_by_<feature>.parquet``: id, shown_<fold> and clicked_<fold>;
- ``vocabulary/statistics.parquet``: one row with the division of displays, medians, means and deviations.

The same displays give the same bytes, and nothing is unpickled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.artifacts.remote import local_copy
from components.datasets.outbrain.division import Division
from components.datasets.outbrain.ids import Positions
from components.datasets.outbrain.statistics import AGES, COUNTED, RATED, Counts, Fitted, outside
from components.errors import KfrecError
from components.feature_spec.vocabulary import VOCABULARY

_SCALARS = f"{VOCABULARY}/statistics.parquet"
_FORMAT = 1
_NUMBERS = {
    "medians": {name: f"median_of_{name}" for name in AGES},
    "means": {name: f"mean_of_{name}_count" for name in COUNTED},
    "deviations": {name: f"deviation_of_{name}_count" for name in COUNTED},
}


def _file(name: str) -> str:
    return f"{VOCABULARY}/clicks_by_{name}.parquet"


def write_fitted(fitted: Fitted, folder: Path) -> None:
    """Writes the files into ``folder``."""
    (folder / VOCABULARY).mkdir()
    for name, counts in fitted.counts.items():
        columns = {"id": counts.ids}
        for title, values in (("shown", counts.shown), ("clicked", counts.clicked)):
            columns |= {f"{title}_{fold}": values[:, fold] for fold in range(values.shape[1])}
        pq.write_table(pa.table(columns), folder / _file(name))
    scalars: dict[str, Any] = {"format": _FORMAT, "rows": fitted.rows, **vars(fitted.division)}
    for group, columns_of in _NUMBERS.items():
        scalars |= {column: getattr(fitted, group)[name] for name, column in columns_of.items()}
    pq.write_table(pa.table({name: [value] for name, value in scalars.items()}), folder / _SCALARS)


def read_fitted(location: str, scratch: Path) -> Fitted:
    """The statistics of an earlier output.

    Args:
        location: folder or URI of this step's output, or of records or a model with its files.

    Raises:
        KfrecError: files are missing, or were not written by this step.
    """
    folder = local_copy(location, scratch, VOCABULARY)
    if not (folder / _SCALARS).is_file():
        raise KfrecError(
            f"{location}: no {_SCALARS} here; workflow must name an earlier output of this step for outbrain, or "
            "records or a model that carry its statistics"
        )
    require_listed(folder, [_SCALARS, *map(_file, RATED)])
    scalars = _read(folder / _SCALARS).to_pylist()
    if len(scalars) != 1 or scalars[0].get("format") != _FORMAT:
        raise _not_ours(folder / _SCALARS)
    try:
        division = Division(**{name: scalars[0][name] for name in Division.__dataclass_fields__})
        numbers = {
            group: {name: float(scalars[0][column]) for name, column in columns.items()}
            for group, columns in _NUMBERS.items()
        }
        rows = int(scalars[0]["rows"])
    except (KeyError, TypeError, ValueError):
        raise _not_ours(folder / _SCALARS) from None
    counts = {name: _counts(folder / _file(name), division.folds) for name in RATED}
    return Fitted(division, rows, counts, **numbers)


def _counts(path: Path, folds: int) -> Counts:
    table = _read(path)
    names = ["id", *(f"{title}_{fold}" for title in ("shown", "clicked") for fold in range(folds))]
    if table.column_names != names or any(
        column.type != pa.int64() or column.null_count for column in table.itercolumns()
    ):
        raise _not_ours(path)
    ids, *counts = (column.to_numpy() for column in table.itercolumns())
    if (ids[1:] <= ids[:-1]).any() or (ids < 0).any():
        raise _not_ours(path)
    shown, clicked = (np.stack(part, axis=1) for part in (counts[:folds], counts[folds:]))
    return Counts(ids, shown, clicked)


def _read(path: Path) -> pa.Table:
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowException):
        raise _not_ours(path) from None


def _not_ours(path: Path) -> KfrecError:
    return KfrecError(
        f"{path}: not statistics that this kfrec writes; workflow must name an earlier output of this step, or be "
        "empty to fit new ones"
    )


def load_counts(folder: Path, name: str, folds: int) -> tuple[Positions, np.ndarray, np.ndarray]:
    """The positions of ids, and each id's shows and clicks outside each fold and in total."""
    counts = _counts(folder / _file(name), folds)
    return Positions(counts.ids), outside(counts.shown), outside(counts.clicked)
