"""Confidence bands of ROC curves, and of the difference of two, by the paired bootstrap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from components.metrics.bootstrap import CONFIDENCE

POINTS = 101


@dataclass(frozen=True)
class Band:
    """A curve on all samples with the ends of its pointwise confidence band, an entry per false positive rate."""

    estimate: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class RocBands:
    """Two models' ROC curves on the same samples.

    Attributes:
        false_positive_rate: evenly spaced from 0 to 1.
    """

    false_positive_rate: np.ndarray
    model: Band
    rival: Band
    difference: Band


def roc_bands(
    labels: np.ndarray,
    scores: np.ndarray,
    rival_scores: np.ndarray,
    *,
    clusters: np.ndarray | None = None,
    samples: int = 200,
) -> RocBands:
    """True positive rates at evenly spaced false positive rates, with percentile bootstrap bands.

    Bands are pointwise, at CONFIDENCE. A resample draws samples, or clusters, with replacement; both curves use the
    same draw. Scores are sorted once.

    Args:
        labels: 0 or 1, both present.
        clusters: samples of a cluster are drawn together; None draws single samples.
    """
    rates = np.linspace(0, 1, POINTS)
    curves = [_Curve(labels, each, rates) for each in (scores, rival_scores)]
    unit = np.arange(len(labels)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    units, random = int(unit.max()) + 1, np.random.default_rng(0)
    drawn = np.empty((samples, 2, POINTS))
    for index in range(samples):
        weights = np.bincount(random.integers(0, units, units, dtype=np.uint32), minlength=units)[unit]
        for number, curve in enumerate(curves):
            drawn[index, number] = curve.at(weights)
    original = [curve.at(np.ones(len(labels))) for curve in curves]
    tail = (1 - CONFIDENCE) / 2

    def band(estimate: np.ndarray, values: np.ndarray) -> Band:
        low, high = np.nanquantile(values, [tail, 1 - tail], axis=0)
        return Band(estimate, low, high)

    return RocBands(
        rates,
        band(original[0], drawn[:, 0]),
        band(original[1], drawn[:, 1]),
        band(original[0] - original[1], drawn[:, 0] - drawn[:, 1]),
    )


class _Curve:
    """A ROC curve with sample weights."""

    def __init__(self, labels: np.ndarray, scores: np.ndarray, rates: np.ndarray) -> None:
        self._rates, self._order = rates, np.argsort(-scores, kind="stable")
        self._positive = np.asarray(labels)[self._order] > 0
        ranked = scores[self._order]
        self._last_of_ties = np.append(np.flatnonzero(np.diff(ranked)), len(ranked) - 1)

    def at(self, weights: np.ndarray) -> np.ndarray:
        """The true positive rates; NaN if a class has no weight."""
        weights = weights[self._order]
        positives = np.cumsum(np.where(self._positive, weights, 0.0))[self._last_of_ties]
        negatives = np.cumsum(np.where(self._positive, 0.0, weights))[self._last_of_ties]
        if not positives[-1] or not negatives[-1]:
            return np.full(len(self._rates), np.nan)
        rates = np.append(0.0, negatives / negatives[-1])
        return np.interp(self._rates, rates, np.append(0.0, positives / positives[-1]))
