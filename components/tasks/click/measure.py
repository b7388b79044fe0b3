"""Every number and curve that the evaluation reports, from labels and probabilities."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from components.metrics import (
    CONFIDENCE,
    auc_by_bucket,
    auc_interval,
    average_precision,
    calibration,
    grouped_auc,
    log_loss,
    precision_recall_curve,
    roc_auc,
    roc_curve,
)
from components.tasks.definition import Measured, Scores

RESAMPLES = 500
HISTORY_BOUNDS = (5, 10, 20, 50, 99)
DECISION = 0.5
_DENSITY_BINS = 40


def measure(scores: Scores, bins: int) -> Measured:
    """Computes metrics and curves.

    Args:
        scores: labels with both classes, and probabilities.
        bins: bins of the calibration curve.
    """
    labels, p = scores.labels, scores.values
    users, lengths = scores.kept.get("user"), scores.kept.get("history_length")
    interval = auc_interval(labels, p, samples=RESAMPLES, confidence=CONFIDENCE, clusters=users)
    calibrated = calibration(labels, p, bins)
    metrics: dict[str, Any] = {
        "test_auc": roc_auc(labels, p),
        "test_auc_low": interval.low,
        "test_auc_high": interval.high,
        "test_auc_confidence": CONFIDENCE,
        "test_logloss": log_loss(labels, p),
        "test_pr_auc": average_precision(labels, p),
        "test_calibration_error": calibrated.error,
        "test_calibration_ratio": calibrated.ratio,
        "test_positive_rate": float(labels.mean()),
        "test_rows": len(labels),
    }
    if users is not None:
        grouped = grouped_auc(labels, p, users)
        metrics |= {
            "test_grouped_auc": grouped.auc,
            "test_grouped_auc_users": grouped.groups,
            "test_grouped_auc_users_left_out": grouped.left_out,
        }
    if lengths is not None:
        metrics["by_history_length"] = auc_by_bucket(labels, p, lengths, HISTORY_BOUNDS)
    metrics["confusion"] = {
        "threshold": DECISION,
        "classes": ["not clicked", "clicked"],
        "matrix": _confusion(labels, p),
    }
    curves = {
        "roc": roc_curve(labels, p),
        "pr": precision_recall_curve(labels, p),
        "calibration": asdict(calibrated),
        "scores": _densities(labels, p),
    }
    # A curve over the longest history of each bucket.
    by_length = [
        (each["to"], each["auc"]) for each in metrics.get("by_history_length") or () if each["auc"] is not None
    ]
    series = {"test_auc_by_history_length": by_length}
    return Measured({name: _finite(value) for name, value in metrics.items()}, curves, series)


def _confusion(labels: np.ndarray, probabilities: np.ndarray) -> list[list[int]]:
    """Rows: true 0 and 1; columns: called 0 and 1."""
    cell = 2 * (labels > 0) + (probabilities >= DECISION)
    return np.bincount(cell, minlength=4).reshape(2, 2).tolist()


def _densities(labels: np.ndarray, probabilities: np.ndarray) -> dict[str, Any]:
    """Share of each class in bins of equal width over [0, 1]."""
    index = np.minimum((probabilities * _DENSITY_BINS).astype(int), _DENSITY_BINS - 1)
    share = {}
    for name, which in (("negative", labels == 0), ("positive", labels > 0)):
        share[name] = (np.bincount(index[which], minlength=_DENSITY_BINS) / which.sum()).tolist()
    return {"edges": np.linspace(0, 1, _DENSITY_BINS + 1).tolist(), **share}


def _finite(value: Any) -> Any:
    """JSON has no nan."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
