"""What each column of a table adds to a model: its AUC's loss where the column's values are shuffled.

Permutation importance: Breiman, "Random Forests", Machine Learning 45, 2001, section 10. Of columns that tell the same,
each loses little, since the other one is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from components.contract import PROBABILITY
from components.feature_spec import Channel, FeatureSpec
from components.metrics import CONFIDENCE, FEWEST, rarer_units
from components.metrics.delong import delong_difference
from components.report import Figure, Row, Section, interval_chart, spanning
from components.tasks.controls import Probe, Samples
from components.tasks.scores import Controlled

_CHANNELS = (Channel.NUMERICAL, Channel.QUANTILE, Channel.CATEGORICAL, Channel.MULTIHOT)
# Of the metadata: feature to the column that it is derived from, such as a bin of a number.
DERIVED = "derived"
# Columns that the chart shows.
_SHOWN = 20
_NAME = 20


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
    """``importance``: column, ``auc_loss``, ``low``, ``high`` (its interval), largest first; empty without columns."""
    labels = controlled.model.labels[controlled.column_rows] > 0
    if not controlled.columns or rarer_units(labels) < FEWEST:
        return {}
    scores = controlled.model.outputs[PROBABILITY][controlled.column_rows]
    found: list[dict[str, Any]] = []
    for column, changed in controlled.columns.items():
        loss = delong_difference(labels, scores, changed)
        found.append({"column": column, "auc_loss": loss.estimate, "low": loss.low, "high": loss.high})
    found.sort(key=lambda each: -each["auc_loss"])
    return {"importance": found, "test_importance_rows": len(labels)}


def importance_section(metrics: Mapping[str, Any]) -> Section:
    """The columns with the largest losses; without figures if none was measured."""
    found: Sequence[Mapping[str, Any]] = metrics.get("importance") or ()
    shown = found[:_SHOWN]
    others = f" The {len(found) - len(shown)} others lose less; metrics.json has them." if len(found) > _SHOWN else ""
    figures = []
    if shown:
        ends = [end for each in shown for end in (each["low"], each["high"])]
        rows = [Row(_shortened(each["column"]), each["auc_loss"], (each["low"], each["high"])) for each in shown]
        chart = interval_chart(rows, spanning("loss of AUC", [0.0, *ends]))
        note = f"Whiskers are {100 * CONFIDENCE:g} % intervals of the difference on the same samples.{others}"
        figures.append(Figure("Loss of AUC with one column shuffled", chart, note, wide=True))
    return Section(
        "What each column adds",
        f"How much lower the AUC is on {metrics.get('test_importance_rows', 0):,} test samples if a column has the "
        "values of other samples. Columns that tell the same share their worth: each loses little while the other is "
        "there.",
        figures,
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
