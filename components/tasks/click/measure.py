"""Every number and curve that the evaluation reports, from labels and probabilities."""

from __future__ import annotations

from components.contract import PROBABILITY
from components.metrics import grouped_auc
from components.tasks.binary.importance import measure_importance
from components.tasks.binary.measure import finite, measure_binary, measure_binary_controls
from components.tasks.click.controls import auc_intervals
from components.tasks.click.groups import group_series, measure_groups
from components.tasks.click.parameters import AUC
from components.tasks.definition import Measured
from components.tasks.scores import Scores


def measure(scores: Scores) -> Measured:
    """Computes metrics and curves.

    Args:
        scores: labels with both classes, and probabilities.
    """
    labels, p = scores.labels, scores.outputs[PROBABILITY]
    users = scores.kept.get("user")
    measured = measure_binary(labels, p, users)
    metrics = dict(measured.metrics)
    if users is not None:
        grouped = grouped_auc(labels, p, users)
        metrics |= {
            "test_grouped_auc": grouped.auc,
            "test_grouped_auc_users": grouped.groups,
            "test_grouped_auc_users_left_out": grouped.left_out,
        }
    if scores.controlled is not None:
        metrics |= measure_binary_controls(scores.controlled, AUC, auc_intervals)
        metrics |= measure_importance(scores.controlled)
    groups = measure_groups(scores)
    return Measured(finite(metrics | groups), measured.curves, group_series(groups))
