"""What the reports of tasks share: cards with intervals, groups of samples, and a section about controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.contract import Metric
from components.metrics import CONFIDENCE
from components.report import Axis, Card, Figure, Row, Section, bar_chart, interval_chart, spanning, table

# Smaller losses are shown as none, however narrow their interval.
_LITTLE = 0.002
HISTORY_BOUNDS = (5, 10, 20, 50, 99)
POPULARITY_GROUPS = 5
# Name of a column that the evaluation keeps where a vocabulary grew: 1 for samples with an id that is new, else 0.
ADMITTED = "newly_admitted"
ADMITTED_TITLES = {1: "with newly admitted ids", 0: "all others"}


@dataclass(frozen=True)
class Control:
    """How a control is shown.

    Attributes:
        what: it is, a sentence; ``{about}`` is what its fitting has chosen.
        above: a sentence if the model is above it.
        alike: if the model is neither above nor below it.
        below: if the model is below it.
    """

    name: str
    what: str
    above: str
    alike: str
    below: str

    def meaning(self, about: object, gain: float, low: float | None, high: float | None) -> str:
        """The sentences for the model's gain over the control, with its interval, if there is one."""
        is_below, is_above = high is not None and high < 0, low is not None and low > 0 and gain >= _LITTLE
        found = self.below if is_below else self.above if is_above else self.alike
        return f"{self.what.format(about=about)} {found}"


def simple_rule(name: str, what: str, does: str) -> Control:
    """A control that scores by a rule, such as a number alone; ``does`` is such as "This one number does"."""
    return Control(
        name, what, "The model is above it.", f"{does} as well as the model.", f"{does} better than the model."
    )


def interval_card(title: str, metrics: Mapping[str, Any], name: str, *, main: bool = False, decimals: int = 4) -> Card:
    """A metric with its interval."""
    return Card(title, metrics[name], _ends(metrics, name, f".{decimals}f") or "too few for an interval", main)


def with_interval(metrics: Mapping[str, Any], name: str, form: str = ".4f") -> str:
    """A metric with its interval, such as "0.7214 (0.7123 to 0.7310)", or without one."""
    value, ends = f"{metrics[name]:{form}}", _ends(metrics, name, form)
    return f"{value} ({ends})" if ends else value


def true_figure(metrics: Mapping[str, Any], name: str, number: Callable[[float], str], what: str = "figure") -> str:
    """A clause about the interval of a metric, such as "the true figure lies between 0.71 and 0.73 (95 % confidence)".

    Args:
        number: formats an end.
    """
    low, high = metrics[f"{name}_low"], metrics[f"{name}_high"]
    if low is None:
        return f"there are too few of the rarer class to say where the true {what} lies"
    return f"the true {what} lies between {number(low)} and {number(high)} ({100 * CONFIDENCE:.0f} % confidence)"


def range_name(group: Mapping[str, Any]) -> str:
    """A group's smallest and largest value, such as "3–5" or "7"."""
    low, high = group["from"], group["to"]
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


def range_figures(
    groups: Sequence[Mapping[str, Any]], metric: Metric, guessing: float, title: str, x: str, note: str
) -> Iterator[Figure]:
    """A chart of a metric by group, without bars for groups of no interval; none without any interval.

    Args:
        groups: ``from``, ``to``, ``rows``, the metric by its name, and its interval ``low`` and ``high``, or None.
    """
    bands = [(group["low"], group["high"]) if group["low"] is not None else None for group in groups]
    if not any(bands):
        return
    names = [range_name(group) for group in groups]
    values = [group[metric.name] if band else None for group, band in zip(groups, bands, strict=True)]
    notes = [f"{group['rows']:,}" for group in groups]
    note += " The lower number is that of the samples" + ("." if all(bands) else ", too few where there is no bar.")
    ends = [end for band in bands if band for end in band]
    low, high = min(guessing, *ends), max(ends)
    axis = Axis(metric.label, low, high + ((high - low) * 0.12 or 1.0))
    yield Figure(title, bar_chart(names, values, notes, x, axis, bands), note)


def controls_section(
    metrics: Mapping[str, Any],
    metric: Metric,
    controls: Mapping[str, Control],
    guessing: float,
    saw: str = "no test sample",
) -> Section:
    """The metric of every control beside the model's own; without figures if nothing was measured.

    Args:
        controls: by name, in the order of the section.
    """
    title = "What the score rests on"
    rows = list(_rows(metrics, metric, controls))
    if len(rows) < 2:
        return Section(title, "", [])
    whiskers = f"Whiskers are {100 * CONFIDENCE:g} % intervals."
    note = f"Differences, with {100 * CONFIDENCE:g} % intervals, are of the same samples."
    ends = [end for row, _ in rows for end in (row.interval or (row.value, row.value))]
    chart = interval_chart([row for row, _ in rows], spanning(metric.label, [*ends, guessing]))
    meanings = table(("", metric.label, "model above it by", "meaning"), [cells for _, cells in rows])
    return Section(
        title,
        _text(metrics, saw),
        [
            Figure(f"{metric.label} of the model and of its controls", chart, whiskers, wide=True),
            Figure("What they mean", meanings, note, wide=True),
        ],
    )


def _text(metrics: Mapping[str, Any], saw: str) -> str:
    rows, trained = metrics.get("test_controls_rows"), metrics.get("test_controls_training_rows")
    if rows is None:
        return "The model beside the best possible score of generated data."
    drawn = f"all {rows:,}" if rows == metrics["test_rows"] else f"{rows:,} random ones of {metrics['test_rows']:,}"
    fitted = f" The baselines were fitted on {trained:,} training samples and saw {saw}." if trained else ""
    return f"Scores without the model, and scores of the model with changed input, on {drawn} test samples.{fitted}"


def _rows(
    metrics: Mapping[str, Any], metric: Metric, controls: Mapping[str, Control]
) -> Iterator[tuple[Row, tuple[str, ...]]]:
    of = metric.name
    own = f"test_controls_{of}" if f"test_controls_{of}" in metrics else f"test_{of}"
    yield _row("the model", metrics, own, "", "On these samples.", "one")
    if f"test_best_{of}" in metrics:
        best = metrics[f"test_best_{of}"]
        sentence = "The true probabilities, which the data's generator knows: no model is above them but by chance."
        difference = f"{metrics[f'test_{of}'] - best:+.4f}"
        yield Row("the best possible", best), ("the best possible", f"{best:.4f}", difference, sentence)
    for name, control in controls.items():
        if metrics.get(f"test_{name}_{of}") is None:
            continue
        above = f"test_{of}_above_{name}"
        gain, low, high = (metrics[f"{above}{part}"] for part in ("", "_low", "_high"))
        difference = with_interval(metrics, above, "+.4f")
        meaning = control.meaning(metrics.get(name), gain, low, high)
        yield _row(control.name, metrics, f"test_{name}_{of}", difference, meaning)


def _row(
    name: str, metrics: Mapping[str, Any], key: str, difference: str, sentence: str, style: str = "two"
) -> tuple[Row, tuple[str, ...]]:
    value, low, high = (metrics[f"{key}{part}"] for part in ("", "_low", "_high"))
    ends = None if low is None else (low, high)
    return Row(name, value, ends, style), (name, with_interval(metrics, key), difference, sentence)


def _ends(metrics: Mapping[str, Any], name: str, form: str) -> str:
    low, high = metrics[f"{name}_low"], metrics[f"{name}_high"]
    return "" if low is None else f"{low:{form}} to {high:{form}}"


def popularity_bounds(values: np.ndarray) -> list[int]:
    """Upper bounds of groups: 0 first, then groups of about equal size; equal values share a group."""
    occurring = values[values > 0]
    if not len(occurring):
        return [0]
    shares = np.arange(1, POPULARITY_GROUPS) / POPULARITY_GROUPS
    return [0, *np.unique(np.quantile(occurring, shares, method="lower")).astype(int).tolist()]
