"""The report of live quality: the task's report of labelled rows, after a table of versions and days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from components.feedback.live import Live
from components.feedback.outcomes import Counts
from components.report import Axis, Card, Figure, Line, Section, Story, line_chart, spanning, table
from components.report.page import Facts, render
from components.tasks import TaskDefinition

_COLUMNS = ("version", "day", "served", "matured", "metric", "interval", "calibration", "unknown ids", "not recomputed")
# Of lists, which have no metric of the model's task.
NDCG = "ndcg"


def page(
    name: str,
    task: TaskDefinition,
    days: Sequence[Live],
    total: Live | None,
    drifted: Mapping[str, float],
    challenged: str,
    counts: Counts,
    run_id: str,
) -> str:
    """The report as HTML.

    Args:
        days: of every version, by version and day.
        total: of the version that is judged, over all days; None without one.
        drifted: column to its population stability index.
        challenged: the comparison with the challenger in a sentence; empty without one.
    """
    metric, label = metric_of(task, total)
    first = [_days(days, metric, label), _drift(drifted)]
    if total is not None and total.measured is not None:
        story = task.story(total.measured)
    else:
        cards = [Card(label, total.metrics.get(f"live_{metric}") if total else None, "of matured rows", main=True)]
        story = Story("", "", cards, ())
    value = total.metrics.get(f"live_{metric}") if total else None
    headline = "No matured rows yet" if value is None else f"Live {label} {value:.4f}"
    of = f"of version {total.version} " if total and total.version else ""
    lead = (
        f"{counts.matured:,} of {counts.served:,} served rows have matured; these figures are of rows {of}with a "
        f"label. Of {counts.outcomes:,} outcomes {counts.attributed:,} count, {counts.duplicates:,} of these for a row "
        f"that had one already; {counts.late:,} came too late, {counts.unmatched:,} belong to no served row. "
        f"{challenged}"
    )
    story = replace(story, headline=headline, lead=lead.strip(), data={}, first=[*first, *story.first])
    facts = Facts(
        title=name,
        run=run_id,
        data={name.replace("_", " "): f"{value:,}" for name, value in vars(counts).items()},
        origins={},
        about="Live quality of",
        written="Written by the feedback step of kfrec. The figures are in live.json.",
    )
    return render(story, facts, task.metrics)


def metric_of(task: TaskDefinition, live: Live | None) -> tuple[str, str]:
    """Name and label of the figure that a live model is followed by: the task's, or NDCG of lists."""
    if live is not None and f"live_{task.primary.name}" not in live.metrics and f"live_{NDCG}" in live.metrics:
        return NDCG, "NDCG of lists"
    return task.primary.name, task.primary.label


def _days(days: Sequence[Live], metric: str, label: str) -> Section:
    rows = [
        (
            live.version,
            live.day,
            f"{live.metrics['served']:,}",
            f"{live.metrics['matured']:,}",
            _number(live.metrics.get(f"live_{metric}")),
            _interval(live.metrics, metric),
            _number(live.metrics.get("live_calibration_ratio"), ".3f"),
            _number(live.metrics.get("unknown_share"), ".2%"),
            _number(live.metrics.get("skew_share"), ".2%"),
        )
        for live in days
    ]
    figures = [Figure(f"{label} by version and day", table(_COLUMNS, rows), _NOTE, wide=True)] if rows else []
    newest = days[-1].version if days else ""
    points = [
        (place, live.metrics[f"live_{metric}"], live.metrics[f"live_{metric}_low"], live.metrics[f"live_{metric}_high"])
        for place, live in enumerate((live for live in days if live.version == newest), 1)
        if live.metrics.get(f"live_{metric}_low") is not None
    ]
    if len(points) > 1:
        places, values, lows, highs = zip(*points, strict=True)
        line = Line(label, places, values, "one", dots=True, band=(lows, highs))
        axis = Axis("day", 0.8, places[-1] + 0.2, tuple(float(place) for place in places))
        chart = line_chart([line], axis, spanning(label, [*lows, *highs]))
        figures.append(Figure(f"{label} of version {newest}", chart, "Shaded is the interval."))
    return Section("Versions and days", "What each version answered on a day, and what came of it.", figures)


_NOTE = (
    "Days are UTC. Calibration is observed over predicted positives. Unknown ids is the share of rows with an id that "
    "the version does not know; not recomputed the share whose logged score the version does not give again."
)


def _drift(drifted: Mapping[str, float]) -> Section:
    rows = [(name, f"{value:.3f}") for name, value in sorted(drifted.items(), key=lambda each: -each[1])]
    note = "Population stability index against profile.json of the model: below 0.1 is stable, above 0.25 a shift."
    return Section(
        "Drift", "The served columns, against the data that the model was trained on.",
        [Figure("Served columns", table(("column", "psi"), rows), note)] if rows else [],
    )  # fmt: skip


def _interval(metrics: Mapping[str, Any], metric: str) -> str:
    low, high = (metrics.get(f"live_{metric}_{end}") for end in ("low", "high"))
    return "–" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def _number(value: float | None, form: str = ".4f") -> str:
    return "–" if value is None else format(value, form)
