"""What the score of a ranking model rests on: the baseline, and its measurement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from components.contract import PROBABILITY
from components.feature_spec import Channel, FeatureSpec
from components.metrics import Interval, RankedGroups, mean_interval
from components.tasks.binary.columns import column_baselines
from components.tasks.binary.importance import shuffled_columns
from components.tasks.control_metrics import Intervals
from components.tasks.controls import Controls
from components.tasks.ranking.parameters import GROUP, RankingEvaluation
from components.tasks.scores import Scores


def controls(spec: FeatureSpec, parameters: RankingEvaluation) -> Controls | None:
    """The baselines; None if the data lack columns, or parameters leave them out."""
    baselines = column_baselines(spec) if parameters.baseline_samples else None
    columns = shuffled_columns(spec) if parameters.importance_samples else ()
    if not parameters.control_samples or not (baselines or columns):
        return None
    (group,) = spec.channels[Channel.GROUP][:1]
    return Controls(
        (),
        baselines,
        PROBABILITY,
        parameters.control_samples,
        parameters.baseline_samples,
        group,
        columns,
        parameters.importance_samples,
    )


def map_intervals(k: int, scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the bootstrap over groups with a click."""
    precisions = [
        RankedGroups(scores.labels, each, scores.kept[GROUP]).average_precision(k)
        for each in (scores.outputs[PROBABILITY], *others)
    ]

    def interval(which: int, minus: int | None) -> Interval:
        return mean_interval(precisions[which] - (0 if minus is None else precisions[minus]))

    return interval
