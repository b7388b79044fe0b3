"""Numbers and curves of a binary outcome, from labels and probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, log_loss

from components.contract import Metric
from components.metrics import CONFIDENCE, auc_interval, calibration, precision_recall_curve, roc_auc, roc_curve
from components.tasks.controls import Intervals, measure_controls
from components.tasks.definition import Measured
from components.tasks.scores import Controlled, Scores

RESAMPLES = 500
DECISION = 0.5
_DENSITY_BINS = 40
# Of a probability in the log loss, from 0 and 1: float32 ends there, and one wrong sample makes no infinite mean.
_SMALLEST = 1e-7


def measure_binary_controls(
    controlled: Controlled, metric: Metric, intervals: Callable[[Scores, Sequence[np.ndarray]], Intervals]
) -> dict[str, Any]:
    """``components.tasks.controls.measure_controls``; empty if the samples lack a class."""
    labels = controlled.model.labels
    return measure_controls(controlled, metric, intervals) if labels.min(initial=1) < labels.max(initial=0) else {}


def measure_binary(labels: np.ndarray, probabilities: np.ndarray, clusters: np.ndarray | None) -> Measured:
    """Computes metrics and curves; a metric may be nan.

    Args:
        labels: 0 or 1, both present.
        clusters: cluster of each sample, such as its user; None for independent samples.
    """
    interval = auc_interval(labels, probabilities, samples=RESAMPLES, clusters=clusters)
    calibrated = calibration(labels, probabilities)
    confusion = _confusion(labels, probabilities)
    clipped = np.clip(probabilities.astype(np.float64), _SMALLEST, 1 - _SMALLEST)
    metrics = {
        **interval.metrics("test_auc"),
        "test_auc": roc_auc(labels, probabilities),
        "test_auc_confidence": CONFIDENCE,
        "test_logloss": log_loss(labels, clipped),
        "test_accuracy": float(np.trace(confusion) / len(labels)),
        "test_pr_auc": average_precision_score(labels, probabilities),
        "test_calibration_error": calibrated.error,
        "test_calibration_ratio": calibrated.ratio,
        "test_positive_rate": float(labels.mean()),
        "test_rows": len(labels),
        "test_positives": int(np.count_nonzero(labels)),
        "confusion": {"threshold": DECISION, "classes": ["not clicked", "clicked"], "matrix": confusion.tolist()},
    }
    curves = {
        "roc": roc_curve(labels, probabilities),
        "pr": precision_recall_curve(labels, probabilities),
        "calibration": asdict(calibrated),
        "scores": _densities(labels, probabilities),
    }
    return Measured(metrics, curves)


def finite(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics with None for nan, which JSON lacks."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in metrics.items()
    }


def _confusion(labels: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Rows: true 0 and 1; columns: predicted 0 and 1."""
    cell = 2 * (labels > 0) + (probabilities >= DECISION)
    return np.bincount(cell, minlength=4).reshape(2, 2)


def _densities(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Share of each class in bins of equal width over [0, 1]."""
    index = np.minimum((probabilities * _DENSITY_BINS).astype(int), _DENSITY_BINS - 1)
    share = {}
    for name, which in (("negative", labels == 0), ("positive", labels > 0)):
        share[name] = (np.bincount(index[which], minlength=_DENSITY_BINS) / which.sum()).tolist()
    return {"edges": np.linspace(0, 1, _DENSITY_BINS + 1).tolist(), **share}
