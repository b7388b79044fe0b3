"""Statistics of training samples: shows and clicks of ads and their groups, and ages of documents.

Shows and clicks are counted per fold, so that a training sample's rates exclude its own fold. A display's fold depends
only on its id and the seed, so this also holds when statistics are reused on displays that they were fitted on.

Fitted statistics are plain tables of the artifact, which records and models carry along:

- ``vocabulary/clicks_by_<feature>.parquet``: id, shown_<fold> and clicked_<fold>;
- ``vocabulary/statistics.parquet``: one row with the division of displays, medians, means and deviations.

The same displays give the same bytes, and nothing is unpickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from components.artifacts.folder import require_listed
from components.artifacts.remote import local_copy
from components.datasets.outbrain.division import Division
from components.datasets.outbrain.ids import Positions
from components.errors import KfrecError
from components.feature_spec.vocabulary import VOCABULARY

# Features with a click-through rate, and their fewest shows; the rate is 0 below.
RATED = {
    "ad_id": 5,
    "document_id_promo": 5,
    "source_id_promo": 10,
    "publisher_id_promo": 10,
    "advertiser_id": 10,
    "campaign_id": 10,
}
COUNTED = ("ad_id", "document_id_promo")
AGES = ("days_since_published", "days_since_published_promo")
_SCALARS = f"{VOCABULARY}/statistics.parquet"
_FORMAT = 1
_NUMBERS = {
    "medians": {name: f"median_of_{name}" for name in AGES},
    "means": {name: f"mean_of_{name}_count" for name in COUNTED},
    "deviations": {name: f"deviation_of_{name}_count" for name in COUNTED},
}


@dataclass(frozen=True)
class Counts:
    """Shows and clicks by id.

    Attributes:
        ids: int64 [n], ascending.
        shown: int64 [n, folds].
        clicked: int64 [n, folds].
    """

    ids: np.ndarray
    shown: np.ndarray
    clicked: np.ndarray


@dataclass(frozen=True)
class Statistics:
    """Sums over training samples, which add up over partitions.

    Attributes:
        ages: feature of AGES to int64 [days], samples of each age.
    """

    rows: int
    counts: Mapping[str, Counts]
    ages: Mapping[str, np.ndarray]


def count_clicks(rows: Mapping[str, np.ndarray], folds: np.ndarray, number: int) -> Statistics:
    """The statistics of training samples.

    Args:
        rows: columns of raw ids and ages; ids below 0 are missing and not counted.
        folds: int64 [n], from 0 to ``number - 1``.
    """
    counts = {}
    for name in RATED:
        known = rows[name] >= 0
        ids, at = np.unique(rows[name][known], return_inverse=True)
        cell = at * number + folds[known]
        shown, clicked = (
            np.bincount(cell, weights, len(ids) * number).astype(np.int64).reshape(-1, number)
            for weights in (None, rows["clicked"][known])
        )
        counts[name] = Counts(ids, shown, clicked)
    ages = {name: np.bincount(rows[name][~np.isnan(rows[name])].astype(np.int64)) for name in AGES}
    return Statistics(len(folds), counts, ages)


@dataclass
class Summing:
    """Adds up statistics; sums pending ones before they take more memory than the result."""

    _pending: list[Statistics] = field(default_factory=list)

    def add(self, statistics: Statistics) -> None:
        self._pending.append(statistics)
        first, *others = (sum(len(counts.ids) for counts in part.counts.values()) for part in self._pending)
        if sum(others) > 4 * first + 1_000_000:
            self._pending = [_sum(self._pending)]

    def total(self) -> Statistics:
        return _sum(self._pending)


def _sum(parts: Sequence[Statistics]) -> Statistics:
    counts = {name: _sum_counts([part.counts[name] for part in parts]) for name in RATED}
    ages = {}
    for name in AGES:
        ages[name] = np.zeros(max(len(part.ages[name]) for part in parts), np.int64)
        for part in parts:
            ages[name][: len(part.ages[name])] += part.ages[name]
    return Statistics(sum(part.rows for part in parts), counts, ages)


def _sum_counts(parts: Sequence[Counts]) -> Counts:
    ids, at = np.unique(np.concatenate([part.ids for part in parts]), return_inverse=True)
    totals = []
    for name in ("shown", "clicked"):
        total = np.zeros((len(ids), parts[0].shown.shape[1]), np.int64)
        np.add.at(total, at, np.concatenate([getattr(part, name) for part in parts]))
        totals.append(total)
    return Counts(ids, *totals)


@dataclass(frozen=True)
class Fitted:
    """The statistics to encode samples with.

    Attributes:
        division: split and folds of the displays that it was fitted on.
        means: mean of ln(1 + shows) over training samples, for each feature of COUNTED.
    """

    division: Division
    rows: int
    counts: Mapping[str, Counts]
    medians: Mapping[str, float]
    means: Mapping[str, float]
    deviations: Mapping[str, float]

    def share_of_unknown_ads(self, other: Statistics) -> float:
        """Share of the samples of ``other`` with an unknown ad."""
        theirs = other.counts["ad_id"]
        unknown = Positions(self.counts["ad_id"].ids).of(theirs.ids) < 0
        return float(theirs.shown[unknown].sum() / other.rows) if other.rows else 0.0


def fit(total: Statistics, division: Division) -> Fitted:
    """Medians, means and deviations of the sums over all training samples."""
    means, deviations = {}, {}
    for name in COUNTED:
        shown = total.counts[name].shown.sum(axis=1)
        value = np.log1p(shown)  # samples without an id have 0
        means[name] = float((shown * value).sum() / total.rows)
        squares = float((shown * value**2).sum() / total.rows)
        deviations[name] = float(np.sqrt(max(squares - means[name] ** 2, 0.0)))
    return Fitted(
        division, total.rows, total.counts, {name: _median(total.ages[name]) for name in AGES}, means, deviations
    )


def _median(histogram: np.ndarray) -> float:
    """The median of a histogram over 0, 1, 2, ...; 0 if it is empty."""
    below = np.cumsum(histogram)
    if not len(below) or not below[-1]:
        return 0.0
    middle = [(below[-1] - 1) // 2, below[-1] // 2]
    return float(np.searchsorted(below, middle, side="right").mean())


def rates(shown: np.ndarray, clicked: np.ndarray, threshold: int, at: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Clicks per show outside a fold, float32 [n].

    Args:
        shown: int64 [ids, folds + 1], shows outside each fold, and in total.
        threshold: fewest shows; the rate is 0 below.
        at: int64 [n], indices of ids, -1 where unknown.
        fold: int64 [n], the fold to exclude; the number of folds excludes none.
    """
    if not len(shown):
        return np.zeros(len(at), np.float32)
    row = np.maximum(at, 0)
    known = (at >= 0) & (shown[row, fold] >= threshold)
    return np.where(known, clicked[row, fold] / np.maximum(shown[row, fold], 1), 0).astype(np.float32)


def outside(counts: np.ndarray) -> np.ndarray:
    """Counts by fold to counts outside each fold, with the total in the last column: [n, folds + 1]."""
    total = counts.sum(axis=1, keepdims=True)
    return np.concatenate([total - counts, total], axis=1)


def _file(name: str) -> str:
    return f"{VOCABULARY}/clicks_by_{name}.parquet"


def write_fitted(fitted: Fitted, folder: Path) -> None:
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
