"""What the reports of tasks share: cards with intervals, and the section about a model's controls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.contract import Metric
from components.metrics import CONFIDENCE
from components.report import Card, Figure, Row, Section, interval_chart, spanning, table

# Smaller losses are shown as none, however narrow their interval.
_LITTLE = 0.002


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

    def meaning(self, about: object, gain: float, low: float, high: float) -> str:
        """The sentences for the model's gain over the control, with its interval."""
        found = self.below if high < 0 else self.above if low > 0 and gain >= _LITTLE else self.alike
        return f"{self.what.format(about=about)} {found}"


def simple_rule(name: str, what: str, does: str) -> Control:
    """A control that scores by a rule, such as a number alone; ``does`` is such as "This one number does"."""
    return Control(
        name, what, "The model is above it.", f"{does} as well as the model.", f"{does} better than the model."
    )


def interval_card(title: str, metrics: Mapping[str, Any], name: str, *, main: bool = False) -> Card:
    """A metric with its interval."""
    return Card(title, metrics[name], f"{metrics[f'{name}_low']:.4f} to {metrics[f'{name}_high']:.4f}", main)


def range_name(group: Mapping[str, Any]) -> str:
    """A group's smallest and largest value, such as "3–5" or "7"."""
    low, high = group["from"], group["to"]
    return f"{low:,}" if low == high else f"{low:,}–{high:,}"


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
        gain, low, high = (metrics[f"test_{of}_above_{name}{part}"] for part in ("", "_low", "_high"))
        difference = f"{gain:+.4f} ({low:+.4f} to {high:+.4f})"
        meaning = control.meaning(metrics.get(name), gain, low, high)
        yield _row(control.name, metrics, f"test_{name}_{of}", difference, meaning)


def _row(
    name: str, metrics: Mapping[str, Any], key: str, difference: str, sentence: str, style: str = "two"
) -> tuple[Row, tuple[str, ...]]:
    value, low, high = (metrics[f"{key}{part}"] for part in ("", "_low", "_high"))
    return Row(name, value, (low, high), style), (name, f"{value:.4f} ({low:.4f} to {high:.4f})", difference, sentence)
