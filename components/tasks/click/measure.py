"""Every number and curve that the evaluation reports, from labels and probabilities."""

from __future__ import annotations

from components.metrics import auc_by_bucket, grouped_auc
from components.tasks.binary.measure import finite, measure_binary
from components.tasks.definition import Measured, Scores

HISTORY_BOUNDS = (5, 10, 20, 50, 99)


def measure(scores: Scores, bins: int) -> Measured:
    """Computes metrics and curves.

    Args:
        scores: labels with both classes, and probabilities.
        bins: bins of the calibration curve.
    """
    labels, p = scores.labels, scores.values
    users, lengths = scores.kept.get("user"), scores.kept.get("history_length")
    measured = measure_binary(labels, p, bins, users)
    metrics = dict(measured.metrics)
    if users is not None:
        grouped = grouped_auc(labels, p, users)
        metrics |= {
            "test_grouped_auc": grouped.auc,
            "test_grouped_auc_users": grouped.groups,
            "test_grouped_auc_users_left_out": grouped.left_out,
        }
    if lengths is not None:
        metrics["by_history_length"] = auc_by_bucket(labels, p, lengths, HISTORY_BOUNDS)
    # A curve over the longest history of each bucket.
    by_length = [
        (each["to"], each["auc"]) for each in metrics.get("by_history_length") or () if each["auc"] is not None
    ]
    series = {"test_auc_by_history_length": by_length}
    return Measured(finite(metrics), measured.curves, series)
