"""Precision and recall."""

from __future__ import annotations

import numpy as np

from components.metrics.roc import cumulated, thinned


def average_precision(labels: np.ndarray, scores: np.ndarray) -> float:
    """Area under the precision-recall curve as a step function over the distinct thresholds:

        AP = sum_n (R_n - R_{n-1}) * P_n

    Steps, not trapezoids: linear interpolation of this curve is too optimistic.

    Source: Davis and Goadrich, "The relationship between precision-recall and ROC curves", ICML 2006.

    Returns:
        The area, nan without a positive sample.
    """
    if not np.any(np.asarray(labels) > 0):
        return float("nan")
    _, true_positives, false_positives = cumulated(labels, scores)
    precision = true_positives / (true_positives + false_positives)
    recall = true_positives / true_positives[-1]
    return float(np.diff(recall, prepend=0.0) @ precision)


def precision_recall_curve(labels: np.ndarray, scores: np.ndarray, points: int = 200) -> dict[str, list[float]]:
    """The precision-recall curve, thinned evenly along the recall.

    Returns:
        ``recall``, ``precision`` and ``threshold``, in falling order of thresholds.
    """
    thresholds, true_positives, false_positives = cumulated(labels, scores)
    recall = true_positives / true_positives[-1]
    kept = thinned(recall, points)
    return {
        "recall": recall[kept].tolist(),
        "precision": (true_positives / (true_positives + false_positives))[kept].tolist(),
        "threshold": thresholds[kept].tolist(),
    }
