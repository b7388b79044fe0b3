"""The controls of the task ranking, and every number and curve that its evaluation reports."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from components.contract import PROBABILITY
from components.feature_spec import Channel, FeatureSpec
from components.metrics import CONFIDENCE, RankedGroups, mean_interval
from components.tasks.binary.columns import column_baselines
from components.tasks.binary.importance import measure_importance, shuffled_columns
from components.tasks.binary.measure import finite, measure_binary, measure_binary_controls
from components.tasks.controls import Controls, Intervals, mean_intervals
from components.tasks.definition import Measured
from components.tasks.ranking import GROUP, MAP, RankingEvaluation
from components.tasks.scores import Scores

# Upper ends of the buckets of group sizes; the last is open.
SIZE_BOUNDS = (2, 3, 4, 6, 8, 12)
_MOST_CUTS = 30


def controls(spec: FeatureSpec, parameters: RankingEvaluation) -> Controls | None:
    """The baselines; None if the data lack columns, or parameters leave them out."""
    baselines = column_baselines(spec) if parameters.baseline_samples else None
    columns = shuffled_columns(spec) if parameters.importance_samples else ()
    if not parameters.control_samples or not (baselines or columns):
        return None
    (group,) = spec.channels[Channel.GROUP][:1]
    samples = parameters.control_samples, parameters.baseline_samples
    return Controls((), baselines, PROBABILITY, *samples, group, columns, parameters.importance_samples)


def map_intervals(k: int, scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the bootstrap over groups with a click."""
    precisions = [
        RankedGroups(scores.labels, each, scores.kept[GROUP]).average_precision(k)
        for each in (scores.outputs[PROBABILITY], *others)
    ]
    return mean_intervals(precisions)


def measure(scores: Scores, parameters: RankingEvaluation) -> Measured:
    """Computes metrics and curves from labels of both classes, probabilities and groups."""
    k, groups, probabilities = parameters.map_k, scores.kept[GROUP], scores.outputs[PROBABILITY]
    ranked = RankedGroups(scores.labels, probabilities, groups)
    guessed = RankedGroups(scores.labels, np.zeros_like(probabilities), groups)
    precision, by_chance = ranked.average_precision(k), guessed.average_precision(k)
    binary = measure_binary(scores.labels, probabilities, groups)
    metrics: dict[str, Any] = {
        **mean_interval(precision).metrics("test_map"),
        "test_map_confidence": CONFIDENCE,
        "test_map_k": k,
        "test_map_of_guessing": float(by_chance.mean()),
        **mean_interval(precision - by_chance).metrics("test_map_above_guessing"),
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
    return [
        {
            "from": int(sizes[here].min()),
            "to": int(sizes[here].max()),
            "groups": int(here.sum()),
            "map": float(precision[here].mean()),
            "guessing": float(by_chance[here].mean()),
        }
        for here in (bucket == index for index in np.unique(bucket))
    ]
