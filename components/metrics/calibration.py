"""Calibration of probabilities: predicted against observed rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Calibration:
    """Predicted against observed rates.

    Attributes:
        error: expected calibration error, in units of probability.
        ratio: observed over predicted positives; 1 is unbiased, below 1 overestimates, None where none are predicted.
        predicted: mean probability per non-empty bin.
        observed: share of positives per bin.
        rows: samples per bin.
    """

    error: float
    ratio: float | None
    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    rows: tuple[int, ...]


def calibration(labels: np.ndarray, probabilities: np.ndarray, bins: int = 20) -> Calibration:
    """Compares mean prediction and observed rate in bins of equal mass:

        ECE = sum_b n_b / n * |observed_b - predicted_b|

    Sources: Naeini et al., "Obtaining well calibrated probabilities using Bayesian binning", AAAI 2015; bins of
    equal mass as in Nixon et al., "Measuring calibration in deep learning", 2019.

    Args:
        labels: 0 or 1, at least one sample.
        probabilities: predictions in [0, 1].
        bins: number of bins; fewer if predictions tie, because ties share a bin.
    """
    p, y = np.asarray(probabilities, np.float64), np.asarray(labels) > 0
    edges = np.unique(np.quantile(p, np.linspace(0, 1, bins + 1)[1:-1]))
    bin_of = np.searchsorted(edges, p, side="left")
    rows = np.bincount(bin_of, minlength=bins)
    used = rows > 0
    predicted = np.bincount(bin_of, weights=p, minlength=bins)[used] / rows[used]
    observed = np.bincount(bin_of, weights=y, minlength=bins)[used] / rows[used]
    error = rows[used] @ np.abs(observed - predicted) / len(p)
    ratio = float(y.sum() / p.sum()) if p.sum() > 0 else None
    return Calibration(
        float(error), ratio, tuple(predicted.tolist()), tuple(observed.tolist()), tuple(rows[used].tolist())
    )
