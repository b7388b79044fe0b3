"""What the score of a click-through-rate model rests on: its controls, and their measurement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from components.contract import PROBABILITY
from components.feature_spec import FeatureSpec
from components.metrics import CONFIDENCE, resampled_auc
from components.tasks.binary.columns import column_baselines
from components.tasks.binary.importance import shuffled_columns
from components.tasks.binary.measure import RESAMPLES
from components.tasks.click.baselines import history_baselines
from components.tasks.click.parameters import ClickEvaluation
from components.tasks.click.probes import probes_of
from components.tasks.control_metrics import Intervals
from components.tasks.controls import Controls
from components.tasks.scores import Scores

USER = "user"


def controls(spec: FeatureSpec, parameters: ClickEvaluation) -> Controls | None:
    """The probes and baselines that the data allow; None if there are none."""
    probes = probes_of(spec)
    baselines = (history_baselines(spec) or column_baselines(spec)) if parameters.baseline_samples else None
    columns = shuffled_columns(spec) if parameters.importance_samples else ()
    if not parameters.control_samples or not (probes or baselines or columns):
        return None
    return Controls(
        probes,
        baselines,
        PROBABILITY,
        parameters.control_samples,
        parameters.baseline_samples,
        columns=columns,
        column_samples=parameters.importance_samples,
    )


def auc_intervals(scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the bootstrap over users, all on the same draws."""
    resampled = resampled_auc(
        scores.labels, [scores.outputs[PROBABILITY], *others], samples=RESAMPLES, clusters=scores.kept.get(USER)
    )
    return partial(resampled.interval, confidence=CONFIDENCE)
