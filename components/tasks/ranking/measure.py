"""Every number and curve that the evaluation reports, from labels, probabilities and groups."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from components.contract import PROBABILITY
from components.metrics import CONFIDENCE, RankedGroups, mean_interval
from components.tasks.binary.importance import measure_importance
from components.tasks.binary.measure import finite, measure_binary, measure_binary_controls
from components.tasks.definition import Measured
from components.tasks.ranking.controls import map_intervals
from components.tasks.ranking.parameters import MAP
from components.tasks.scores import Scores

# Upper ends of the buckets of group sizes; the last is open.
SIZE_BOUNDS = (2, 3, 4, 6, 8, 12)
_MOST_CUTS = 30


def measure(scores: Scores, k: int) -> Measured:
    """Computes metrics and curves.

    Args:
        scores: labels with both classes, probabilities, and the column group.
        k: positions of MAP@k.
    """
    groups, probabilities = scores.kept["group"], scores.outputs[PROBABILITY]
    ranked = RankedGroups(scores.labels, probabilities, groups)
    guessed = RankedGroups(scores.labels, np.zeros_like(probabilities), groups)
    precision, by_chance = ranked.average_precision(k), guessed.average_precision(k)
    interval = mean_interval(precision)
    binary = measure_binary(scores.labels, probabilities, groups)
    metrics: dict[str, Any] = {
        "test_map": interval.estimate,
        "test_map_low": interval.low,
        "test_map_high": interval.high,
        "test_map_confidence": CONFIDENCE,
        "test_map_k": k,
        "test_map_of_guessing": float(by_chance.mean()),
        "test_groups": len(ranked.groups),
        "test_groups_left_out": ranked.left_out,
        **binary.metrics,
        "by_group_size": _by_size(ranked.sizes, precision, by_chance),
    }
    cuts = list(range(1, min(k, _MOST_CUTS) + 1))
    by_cut, guessed_by_cut = ([each.mean(cut) for cut in cuts] for each in (ranked, guessed))
    curve = {"k": cuts, "model": by_cut, "guessing": guessed_by_cut}
    series = {
        "map_by_k/map": list(zip(cuts, by_cut, strict=True)),
        "map_by_group_size/map": [(each["to"], each["map"]) for each in metrics["by_group_size"]],
    }
    if scores.controlled is not None:
        metrics |= measure_binary_controls(scores.controlled, MAP, partial(map_intervals, k))
        metrics |= measure_importance(scores.controlled)
    return Measured(finite(metrics), {**binary.curves, "map": curve}, series)


def _by_size(sizes: np.ndarray, precision: np.ndarray, by_chance: np.ndarray) -> list[dict[str, Any]]:
    """MAP@k of the model and of random order, by bucket of group sizes."""
    bucket = np.searchsorted(np.asarray(SIZE_BOUNDS), sizes, side="left")
    rows = []
    for index in np.unique(bucket):
        here = bucket == index
        rows.append(
            {
                "from": int(sizes[here].min()),
                "to": int(sizes[here].max()),
                "groups": int(here.sum()),
                "map": float(precision[here].mean()),
                "guessing": float(by_chance[here].mean()),
            }
        )
    return rows
