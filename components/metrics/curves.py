"""The ROC curve with the area under it, exact and from histograms, the precision-recall curve, and calibration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


def roc_auc(labels: np.ndarray, scores: np.ndarray) -> float:
    """Area under the ROC curve: the share of correctly ordered (positive, negative) pairs.

        AUC = (#{s+ > s-} + #{s+ = s-} / 2) / (P * N)

    Integer counts after sorting each class: exact, ties included, in O(n log n).

    Source: Hanley and McNeil, "The meaning and use of the area under a ROC curve", Radiology 143, 1982.

    Returns:
        The area, nan if a class is missing.
    """
    positive = np.asarray(labels) > 0
    above, below = np.sort(scores[positive]), np.sort(scores[~positive])
    if not len(above) or not len(below):
        return float("nan")
    beaten = np.searchsorted(below, above, side="left").sum(dtype=np.int64)
    beaten_or_tied = np.searchsorted(below, above, side="right").sum(dtype=np.int64)
    return (int(beaten) + int(beaten_or_tied)) / (2 * len(above) * len(below))


def auc_of_histograms(positives: np.ndarray, negatives: np.ndarray) -> tuple[float, float]:
    """AUC of binned scores, and its error bound.

    Pairs within a bin count one half; their exact value is between 0 and 1:

        AUC = sum_b P_b * (N_1 + ... + N_{b-1} + N_b / 2) / (P * N),   |error| <= sum_b P_b * N_b / (2 * P * N)

    Histograms of parts of the data can be summed first, so workers exchange only the bins.

    Args:
        positives: positive samples per bin, lowest scores first.
        negatives: negative samples per bin.

    Returns:
        The area and its error bound, both nan if a class is missing.
    """
    positives, negatives = np.asarray(positives, np.float64), np.asarray(negatives, np.float64)
    pairs = positives.sum() * negatives.sum()
    if pairs == 0:
        return float("nan"), float("nan")
    below = np.cumsum(negatives) - negatives / 2
    return float(positives @ below / pairs), float(positives @ negatives / (2 * pairs))


def roc_curve(labels: np.ndarray, scores: np.ndarray, points: int = 200) -> dict[str, list[float]]:
    """The ROC curve from (0, 0) to (1, 1), thinned evenly along its length.

    The threshold of (0, 0), which calls nothing positive, is the next number above the highest score rather than
    infinity, because JSON and Kubeflow's metadata hold only finite numbers.

    Args:
        labels: 0 or 1, both present.
        points: largest number of points.

    Returns:
        ``false_positive_rate``, ``true_positive_rate`` and ``threshold`` (a sample at or above it is called
        positive), in falling order of thresholds.
    """
    from sklearn import metrics

    fpr, tpr, thresholds = metrics.roc_curve(labels, np.asarray(scores, np.float64), drop_intermediate=False)
    thresholds[0] = np.nextafter(thresholds[1], np.inf)
    shown = thinned(fpr + tpr, points)
    return {
        "false_positive_rate": fpr[shown].tolist(),
        "true_positive_rate": tpr[shown].tolist(),
        "threshold": thresholds[shown].tolist(),
    }


def precision_recall_curve(labels: np.ndarray, scores: np.ndarray, points: int = 200) -> dict[str, list[float]]:
    """The precision-recall curve, thinned evenly along the recall.

    Returns:
        ``recall``, ``precision`` and ``threshold``, in falling order of thresholds.
    """
    from sklearn import metrics

    # scikit-learn's last point, of recall 0, has no threshold.
    precision, recall, thresholds = metrics.precision_recall_curve(labels, scores)
    precision, recall, thresholds = precision[-2::-1], recall[-2::-1], thresholds[::-1]
    shown = thinned(recall, points)
    return {
        "recall": recall[shown].tolist(),
        "precision": precision[shown].tolist(),
        "threshold": thresholds[shown].tolist(),
    }


def thinned(position: np.ndarray, points: int) -> np.ndarray:
    """Indices of at most ``points`` entries of an ascending array, spread evenly over its range, both ends included."""
    if len(position) <= points:
        return np.arange(len(position))
    grid = np.linspace(position[0], position[-1], points)
    picked = np.minimum(np.searchsorted(position, grid), len(position) - 1)
    picked[0], picked[-1] = 0, len(position) - 1
    return np.unique(picked)


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
