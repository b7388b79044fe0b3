"""AUC within groups of samples: per user, and by a property such as the length of the history or the category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.metrics.bootstrap import FEWEST, rarer_units
from components.metrics.curves import roc_auc
from components.metrics.delong import delong_interval


@dataclass(frozen=True)
class GroupedAuc:
    """AUC averaged over groups.

    Attributes:
        auc: the mean, weighted by samples; nan if no group has both classes.
        left_out: number of groups with one class, which have no AUC.
    """

    auc: float
    groups: int
    left_out: int


def grouped_auc(labels: np.ndarray, scores: np.ndarray, groups: np.ndarray) -> GroupedAuc:
    """Mean of the users' AUCs, weighted by their samples (impressions):

        GAUC = sum_u n_u * AUC_u / sum_u n_u     over users u with both classes

    It measures the order within each user's list and ignores differences between users.

    Source: Zhou et al., "Deep Interest Network for Click-Through Rate Prediction", KDD 2018, section 6.2.
    """
    if not len(labels):
        return GroupedAuc(float("nan"), 0, 0)
    order = np.lexsort((scores, groups))
    group, score, positive = groups[order], scores[order], np.asarray(labels)[order] > 0
    new_group = np.append(True, group[1:] != group[:-1])
    new_tie = new_group | np.append(True, score[1:] != score[:-1])
    starts, ties = np.flatnonzero(new_group), np.flatnonzero(new_tie)
    size = np.diff(np.append(starts, len(group)))
    positives = np.add.reduceat(positive, starts, dtype=np.int64)
    # Mann-Whitney: the AUC follows from the sum of the positives' ranks, with mean ranks for ties.
    tie_end = np.append(ties[1:], len(group))
    mean_rank = (ties + tie_end + 1) / 2
    rank = mean_rank[np.cumsum(new_tie) - 1] - np.repeat(starts, size)
    rank_sum = np.add.reduceat(np.where(positive, rank, 0.0), starts)
    counts = (positives > 0) & (positives < size)
    p, n = positives[counts], (size - positives)[counts]
    auc = (rank_sum[counts] - p * (p + 1) / 2) / (p * n)
    samples = int((p + n).sum())
    mean = float(auc @ (p + n) / samples) if samples else float("nan")
    return GroupedAuc(mean, int(counts.sum()), int((~counts).sum()))


def auc_by_bucket(
    labels: np.ndarray,
    scores: np.ndarray,
    values: np.ndarray,
    bounds: Sequence[int],
    clusters: np.ndarray | None = None,
) -> list[dict[str, Any]]:
    """AUC of the samples in each bucket of values.

    Args:
        values: an integer per sample, such as the length of its history.
        bounds: ascending inclusive upper bounds of all buckets but the last, which is open.
        clusters: cluster of each sample; None for independent samples.

    Returns:
        For each non-empty bucket: ``from`` and ``to``, its smallest and largest value, and the entries of
        ``auc_by_group``.
    """
    bucket = np.searchsorted(np.asarray(bounds), values, side="left")
    groups = auc_by_group(labels, scores, bucket, clusters)
    ranges = [(int(values[here].min()), int(values[here].max())) for here in _members(bucket)]
    return [{"from": low, "to": high, **group} for (low, high), group in zip(ranges, groups, strict=True)]


def auc_by_group(
    labels: np.ndarray, scores: np.ndarray, groups: np.ndarray, clusters: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """AUC within each group, of its positives over its negatives.

    Args:
        groups: an integer per sample.
        clusters: cluster of each sample; None for independent samples.

    Returns:
        For each non-empty group, in ascending order: ``rows``; ``clicked``, those of label 1; ``auc``, None if a class
        is missing; ``low`` and ``high``, its interval at CONFIDENCE, None if fewer than FEWEST clusters have a sample
        of either class.
    """
    positive = np.asarray(labels) > 0
    units = np.arange(len(positive)) if clusters is None else np.unique(clusters, return_inverse=True)[1]
    return [_measured(positive[here], scores[here], units[here]) for here in _members(groups)]


def _members(groups: np.ndarray) -> list[np.ndarray]:
    """Indices of the samples of each group, groups in ascending order."""
    order = np.argsort(groups, kind="stable")
    ranked = groups[order]
    return [part for part in np.split(order, np.flatnonzero(ranked[1:] != ranked[:-1]) + 1) if len(part)]


def _measured(positive: np.ndarray, scores: np.ndarray, units: np.ndarray) -> dict[str, Any]:
    result: dict[str, Any] = {"rows": len(positive), "clicked": int(positive.sum())}
    if rarer_units(positive, units) < FEWEST:
        auc = roc_auc(positive, scores)
        return {**result, "auc": None if np.isnan(auc) else auc, "low": None, "high": None}
    interval = delong_interval(positive, scores, units)
    return {**result, "auc": interval.estimate, "low": interval.low, "high": interval.high}
