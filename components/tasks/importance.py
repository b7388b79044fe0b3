"""What each column adds to a model: its metric's loss where the column's values are shuffled.

Permutation importance: Breiman, "Random Forests", Machine Learning 45, 2001, section 10. Of columns that tell the same,
each loses little, since the other one is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from components.contract import Metric
from components.metrics import CONFIDENCE
from components.parameters import param
from components.report import Figure, Row, Section, interval_chart, spanning
from components.tasks.controls import Intervals
from components.tasks.report import with_interval
from components.tasks.scores import Controlled, Scores

# Columns that the chart shows.
_SHOWN = 20
_NAME = 20


@dataclass(frozen=True)
class ImportanceEvaluation:
    """Parameters of the evaluate step."""

    importance_samples: int = param(
        10_000,
        "Test samples on which the columns of a table, or in next_item those of the events, are shuffled one by one, "
        "to tell what each adds; 0 leaves that out",
        unit="samples",
        at_least=0,
    )


def measure_importance(
    controlled: Controlled, metric: Metric, intervals: Callable[[Scores, Sequence[np.ndarray]], Intervals]
) -> dict[str, Any]:
    """``importance``: ``column``, ``<metric>_loss``, its interval ``low`` and ``high``, None without one; the largest
    loss first. Empty without columns.

    Args:
        intervals: as of ``measure_controls``.
    """
    if not controlled.columns:
        return {}
    rows, model = controlled.column_rows, controlled.model
    targets, outputs, kept = (
        {name: values[rows] for name, values in part.items()} for part in (model.targets, model.outputs, model.kept)
    )
    interval = intervals(replace(model, targets=targets, outputs=outputs, kept=kept), list(controlled.columns.values()))
    losses = {column: interval(0, place) for place, column in enumerate(controlled.columns, 1)}
    found = [
        {"column": column, **dict(zip((_loss(metric), "low", "high"), loss.metrics("loss").values(), strict=True))}
        for column, loss in sorted(losses.items(), key=lambda each: -each[1].estimate)
    ]
    return {"importance": found, "test_importance_rows": len(rows)}


def importance_section(metrics: Mapping[str, Any], metric: Metric, changed: str, remark: str = "") -> Section:
    """The columns with the largest losses; without figures if none was measured.

    Args:
        changed: how a column is shuffled, such as "if a column has the values of other samples".
        remark: the last sentence.
    """
    found: Sequence[Mapping[str, Any]] = metrics.get("importance") or ()
    shown = found[:_SHOWN]
    others = f" The {len(found) - len(shown)} others lose less; metrics.json has them." if len(found) > _SHOWN else ""
    figures = []
    if shown:
        intervals = [None if each["low"] is None else (each["low"], each["high"]) for each in shown]
        rows = [
            Row(_shortened(each["column"]), each[_loss(metric)], interval)
            for each, interval in zip(shown, intervals, strict=True)
        ]
        ends = [end for row in rows for end in row.interval or (row.value,)]
        chart = interval_chart(rows, spanning(f"loss of {metric.label}", [0.0, *ends]))
        note = f"Whiskers are {100 * CONFIDENCE:g} % intervals of the difference on the same samples.{others}"
        figures.append(Figure(f"Loss of {metric.label} with one column shuffled", chart, note, wide=True))
    return Section(
        "What each column adds",
        f"How much lower the {metric.label} is on {metrics.get('test_importance_rows', 0):,} test samples {changed}. "
        f"Columns that tell the same share their worth: each loses little while the other is there. {remark}".rstrip(),
        figures,
    )


def costs_only(metrics: Mapping[str, Any], metric: Metric) -> str:
    """A sentence on the columns whose loss is not above zero by more than chance; empty if there are none."""
    told = []
    for each in metrics.get("importance") or ():
        if each["low"] is None or each["low"] <= 0:
            loss = {"loss": each[_loss(metric)], "loss_low": each["low"], "loss_high": each["high"]}
            told.append(f"{each['column']}: {with_interval(loss, 'loss', '+.4f')}")
    if not told:
        return ""
    return f"Shown to add nothing: {', '.join(told)}. Such a column only costs, unless another one tells the same."


def _loss(metric: Metric) -> str:
    return f"{metric.name}_loss"


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"
