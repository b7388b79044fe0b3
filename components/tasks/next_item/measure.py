"""Every number and curve that the evaluation reports, from ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from components.contract import LOG_LIKELIHOOD
from components.metrics import CONFIDENCE, mean_interval
from components.tasks.catalogue import discounted_gains, hits
from components.tasks.controls import Intervals, mean_intervals, measure_controls
from components.tasks.definition import Measured
from components.tasks.importance import measure_importance
from components.tasks.next_item import (
    HISTORY,
    KIND,
    KNOWN,
    NDCG,
    POPULARITY,
    RANK,
    USER,
    NextItemEvaluation,
    chosen_samples,
    chosen_users,
)
from components.tasks.report import ADMITTED, ADMITTED_TITLES, HISTORY_BOUNDS, popularity_bounds
from components.tasks.scores import Scores

# The lists of the curve, which end near the length of a first stage's list.
_LENGTHS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
RESAMPLES = 500


def measure(scores: Scores, parameters: NextItemEvaluation) -> Measured:
    """Computes metrics and curves of the samples with a chosen item, from the model's ranks."""
    k = parameters.list_length
    chosen = chosen_samples(scores)
    ranks, users = scores.outputs[RANK][chosen], chosen_users(scores)
    metrics: dict[str, Any] = {
        "test_rows": len(ranks),
        "test_list_length": k,
        "test_confidence": CONFIDENCE,
        "test_mean_reciprocal_rank": float((1 / ranks.astype(np.float64)).mean()),
        "test_median_rank": float(np.median(ranks)),
        "test_log_likelihood": float(scores.outputs[LOG_LIKELIHOOD][chosen].mean(dtype=np.float64)),
    }
    for name, values in (("ndcg", discounted_gains(ranks, k)), ("hr", hits(ranks, k))):
        metrics |= mean_interval(values, samples=RESAMPLES, clusters=users).metrics(f"test_{name}")
    if scores.controlled is not None and chosen_samples(scores.controlled.model).any():
        intervals = partial(gain_intervals, k)
        metrics |= measure_controls(scores.controlled, NDCG, intervals)
        if chosen_samples(scores.controlled.model)[scores.controlled.column_rows].any():
            metrics |= measure_importance(scores.controlled, NDCG, intervals)
    groups = measure_groups({name: values[chosen] for name, values in scores.kept.items()}, ranks, k, scores.names)
    found = [float(hits(ranks, length).mean()) for length in _LENGTHS]
    series = {"hr_by_k/hr": list(zip(_LENGTHS, found, strict=True))}
    return Measured(metrics | groups, {"hits": {"k": list(_LENGTHS), "model": found}}, series)


def measure_groups(
    kept: Mapping[str, np.ndarray], ranks: np.ndarray, k: int, names: Mapping[str, Mapping[int, str]]
) -> dict[str, Any]:
    """NDCG@K and HR@K by length of the history, by popularity of the chosen item in the training data, by kind of the
    event, and of users that the training knows and of new ones, and of those with ids of last night; and the shares of
    new items and users.

    Args:
        kept: the task's columns of the samples with a chosen item.
        names: see ``Scores``.
    """
    metrics: dict[str, Any] = {}
    for name, bounds in ((HISTORY, lambda values: HISTORY_BOUNDS), (POPULARITY, popularity_bounds)):
        if name in kept:
            group = np.searchsorted(bounds(kept[name]), kept[name])
            metrics[f"by_{name}"] = [
                {"from": int(kept[name][rows].min()), "to": int(kept[name][rows].max()), **_group(kept, ranks, rows, k)}
                for rows in (group == each for each in np.unique(group))
            ]
    if POPULARITY in kept:
        metrics["test_new_items"] = float((kept[POPULARITY] == 0).mean())
    if KNOWN in kept:
        is_new = kept[KNOWN] == 0
        metrics["test_new_users"] = float(is_new.mean())
        users = (("returning", ~is_new), ("new", is_new))
        metrics["by_user"] = [{"users": name, **_group(kept, ranks, of, k)} for name, of in users if of.any()]
    if KIND in kept:
        kinds, rows = np.unique(kept[KIND], return_counts=True)
        metrics["by_kind"] = [
            {"kind": names[KIND].get(each, "no kind"), **_group(kept, ranks, kept[KIND] == each, k)}
            for each in kinds[np.argsort(-rows, kind="stable")].tolist()
        ]
    if ADMITTED in kept:
        groups = [(title, kept[ADMITTED] == value) for value, title in ADMITTED_TITLES.items()]
        metrics["by_new_ids"] = [{"category": title, **_group(kept, ranks, of, k)} for title, of in groups if of.any()]
    return metrics


def _group(kept: Mapping[str, np.ndarray], ranks: np.ndarray, rows: np.ndarray, k: int) -> dict[str, Any]:
    """The metrics of some samples; the ends of an interval are None without one."""
    users = kept[USER][rows] if USER in kept else None
    gains = mean_interval(discounted_gains(ranks[rows], k), samples=RESAMPLES, clusters=users).metrics("ndcg")
    found = mean_interval(hits(ranks[rows], k), samples=RESAMPLES, clusters=users).metrics("hr")
    ends = {"low": gains.pop("ndcg_low"), "high": gains.pop("ndcg_high")}
    return {"rows": int(rows.sum()), **gains, **ends, **found}


def gain_intervals(k: int, scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the bootstrap over users, all on the same draws."""
    chosen = chosen_samples(scores)
    gains = [discounted_gains(each[chosen], k) for each in (scores.outputs[RANK], *others)]
    return mean_intervals(gains, samples=RESAMPLES, clusters=chosen_users(scores))
