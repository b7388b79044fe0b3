"""Every number and curve that the evaluation reports, from labels and probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from components.contract import PROBABILITY
from components.metrics import auc_by_bucket, auc_by_group, grouped_auc
from components.tasks.binary.importance import measure_importance
from components.tasks.binary.measure import finite, measure_binary, measure_binary_controls
from components.tasks.click import AUC, USER
from components.tasks.click.controls import auc_intervals
from components.tasks.definition import Measured
from components.tasks.groups import ADMITTED, ADMITTED_TITLES, HISTORY_BOUNDS, popularity_bounds
from components.tasks.scores import Scores

CATEGORIES = 12


def measure(scores: Scores, parameters: object) -> Measured:
    """Computes metrics and curves from labels of both classes and probabilities."""
    labels, p = scores.labels, scores.outputs[PROBABILITY]
    users = scores.kept.get(USER)
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


def measure_groups(scores: Scores) -> dict[str, list[dict[str, Any]]]:
    """Results of ``components.metrics.auc_by_group``, by grouping.

    Intervals use the variance between users, if the data have users: samples of one user are not independent.
    """
    kept, users, probabilities = scores.kept, scores.kept.get(USER), scores.outputs[PROBABILITY]
    groups: dict[str, list[dict[str, Any]]] = {}
    for name, bounds in (("history_length", lambda values: HISTORY_BOUNDS), ("popularity", popularity_bounds)):
        if name in kept:
            values = kept[name]
            groups[f"by_{name}"] = auc_by_bucket(scores.labels, probabilities, values, bounds(values), users)
    if ADMITTED in kept:
        groups["by_new_ids"] = _by_new_ids(scores, users)
    if "category" in kept:
        groups["by_category"] = _by_category(scores, users)
    return groups


def group_series(groups: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, list[tuple[int, float]]]:
    """The AUC of each group and its interval, as MLflow series.

    A numeric group is a point at its largest number, such as of ``auc_by_popularity/auc``; a category is a separate
    series, such as ``auc_by_category/Fragrance``. Missing values are skipped.
    """
    series: dict[str, list[tuple[int, float]]] = {}
    for group, members in groups.items():
        for each in members:
            if "category" in each:
                if each["low"] is not None:
                    series[f"auc_{group}/{each['category'].replace('/', '_')}"] = [(0, each["auc"])]
                continue
            for name in ("auc", "low", "high"):
                if each[name] is not None:
                    series.setdefault(f"auc_{group}/{name}", []).append((each["to"], each[name]))
    return series


def _by_new_ids(scores: Scores, users: np.ndarray | None) -> list[dict[str, Any]]:
    """The samples with an id that got its row last night, and all others."""
    others = 1 - scores.kept[ADMITTED]
    groups = auc_by_group(scores.labels, scores.outputs[PROBABILITY], others, users)
    return [
        {"category": ADMITTED_TITLES[1 - key], **group} for key, group in zip(np.unique(others), groups, strict=True)
    ]


def _by_category(scores: Scores, users: np.ndarray | None) -> list[dict[str, Any]]:
    """The largest categories, and all others as one group; an id without a name is its own name."""
    ids, inverse, rows = np.unique(scores.kept["category"], return_inverse=True, return_counts=True)
    chosen = np.argsort(-rows, kind="stable")[:CATEGORIES]
    rank = np.full(len(ids), len(chosen))
    rank[chosen] = np.arange(len(chosen))
    names = scores.names.get("category", {})
    titles: list[dict[str, Any]] = [{"category": names.get(each, f"id {each}")} for each in ids[chosen].tolist()]
    titles.append({"category": "others", "pooled": len(ids) - len(chosen)})
    groups = auc_by_group(scores.labels, scores.outputs[PROBABILITY], rank[inverse], users)
    return [{**name, **group} for name, group in zip(titles, groups, strict=False)]
