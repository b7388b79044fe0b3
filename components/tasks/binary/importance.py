"""What each column of a table adds to a model: its AUC's loss where the column's values are shuffled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from components.contract import PROBABILITY, Metric
from components.feature_spec import Channel, FeatureSpec
from components.metrics import FEWEST, rarer_units
from components.metrics.delong import delong_difference
from components.report import Section
from components.tasks import importance
from components.tasks.controls import Intervals, Probe, Samples
from components.tasks.scores import Controlled, Scores

_AUC = Metric("auc", "AUC")
_CHANNELS = (Channel.NUMERICAL, Channel.QUANTILE, Channel.CATEGORICAL, Channel.MULTIHOT)
# Of the metadata: feature to the column that it is derived from, such as a bin of a number.
DERIVED = "derived"


def shuffled_columns(spec: FeatureSpec) -> tuple[Probe, ...]:
    """A probe for each column of a table; features that are derived from one column are shuffled alike."""
    derived: Mapping[str, str] = spec.metadata.get(DERIVED, {})
    held = set(spec.sources["test"].features)
    columns: dict[str, list[str]] = {}
    for channel in _CHANNELS:
        for name in spec.channels.get(channel, ()):
            if name in held:
                columns.setdefault(derived.get(name, name), []).append(name)
    return tuple(
        Probe(column, tuple(features), tuple(features), partial(shuffled, features=tuple(features), seed=number))
        for number, (column, features) in enumerate(columns.items())
    )


def shuffled(samples: Samples, features: tuple[str, ...], seed: int) -> dict[str, np.ndarray]:
    """The features with the values of other samples, those of one sample together."""
    order = np.random.default_rng(seed).permutation(len(samples[features[0]]))
    return {name: samples[name][order] for name in features}


def measure_importance(controlled: Controlled) -> dict[str, Any]:
    """See ``components.tasks.importance``; empty with too few samples of either label."""
    labels = controlled.model.labels[controlled.column_rows]
    return {} if rarer_units(labels) < FEWEST else importance.measure_importance(controlled, _AUC, _losses)


def _losses(scores: Scores, others: Sequence[np.ndarray]) -> Intervals:
    """Of the model's AUC less that of another place."""
    return lambda which, minus: delong_difference(
        scores.labels > 0, scores.outputs[PROBABILITY], others[(minus or 0) - 1]
    )


def importance_section(metrics: Mapping[str, Any]) -> Section:
    """See ``components.tasks.importance``."""
    return importance.importance_section(metrics, _AUC, "if a column has the values of other samples")
