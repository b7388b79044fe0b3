"""Statistics of training samples: shows and clicks of ads and their groups, and ages of documents.

Shows and clicks are counted per fold, so that a training sample's rates exclude its own fold. A display's fold depends
only on its id and the seed, so this also holds when statistics are reused on displays that they were fitted on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from components.datasets.outbrain.division import Division
from components.datasets.outbrain.ids import Positions

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
