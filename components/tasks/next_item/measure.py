"""Every number and curve that the evaluation reports, from ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from components.contract import LOG_LIKELIHOOD
from components.metrics import CONFIDENCE, mean_interval
from components.tasks.catalogue import discounted_gains, hits
from components.tasks.controls import Intervals, mean_intervals, measure_controls
from components.tasks.definition import Measured
from components.tasks.next_item import NDCG, RANK, NextItemEvaluation, chosen_samples, chosen_users
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
        metrics |= measure_controls(scores.controlled, NDCG, partial(gain_intervals, k))
    found = [float(hits(ranks, length).mean()) for length in _LENGTHS]
    series = {"hr_by_k/hr": list(zip(_LENGTHS, found, strict=True))}
    return Measured(metrics, {"hits": {"k": list(_LENGTHS), "model": found}}, series)


def gain_intervals(k: int, scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the bootstrap over users, all on the same draws."""
    chosen = chosen_samples(scores)
    gains = [discounted_gains(each[chosen], k) for each in (scores.outputs[RANK], *others)]
    return mean_intervals(gains, samples=RESAMPLES, clusters=chosen_users(scores))
