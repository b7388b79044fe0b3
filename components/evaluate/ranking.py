"""Metrics of ranking the whole catalogue, for data with histories whose model takes raw rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from components.datasets.raw_rows import CANDIDATE
from components.errors import KfrecError
from components.feature_spec import Channel, FeatureSpec
from components.progress import warn
from components.scoring import ExportedModel, raw_model
from components.scoring.ranked_users import rank_test_users
from components.tasks import TaskDefinition


def ranking_metrics(
    spec: FeatureSpec,
    model: ExportedModel,
    task: TaskDefinition,
    parameters: Any,
    lookups: Mapping[str, np.ndarray],
) -> dict[str, Any]:
    """The task's metrics of ``components.scoring.rank_test_users``; empty if it or the data have none.

    Args:
        spec: the data.
        model: the model.
        parameters: of the evaluate step.
        lookups: as for ``components.scoring.score_split``.
    """
    measure = task.catalogue
    has_histories = all(spec.channels.get(name) for name in (Channel.TARGET, Channel.POSITIVE))
    if measure is None or not has_histories or not measure.users(parameters):
        return {}
    try:
        raw = raw_model(model)
    except KfrecError as error:
        warn("evaluate", "no ranking of all items", f"no ranking of all items: {error}")
        return {}
    if raw.column_of(CANDIDATE) is None:
        return {}
    ranked = rank_test_users(
        spec,
        raw,
        lookups,
        users=measure.users(parameters),
        scores=measure.scores(parameters),
        top=measure.top(parameters),
    )
    return {} if ranked is None else measure.measure(ranked)
