"""The report's section about what the score rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.report import Figure, Section, spanning, table
from components.report.interval_chart import Row, interval_chart
from components.tasks.click.baselines import BASELINE, POPULARITY, RECENCY
from components.tasks.click.probes import EMPTY_HISTORY, OTHER_HISTORY, UNKNOWN_USER

# Smaller losses are shown as none, however narrow their interval.
_LITTLE = 0.002


@dataclass(frozen=True)
class _Control:
    """How a control is shown.

    Attributes:
        name: in chart and table.
        what: it is, a sentence.
        above: a sentence if the model is above it.
        alike: if the model is neither above nor below it.
        below: if the model is below it.
    """

    name: str
    what: str
    above: str
    alike: str
    below: str

    def meaning(self, gain: float, low: float, high: float) -> str:
        """The sentences for the model's gain over the control, with its interval."""
        if high < 0:
            return f"{self.what} {self.below}"
        return f"{self.what} {self.above if low > 0 and gain >= _LITTLE else self.alike}"


_COUNTED = "How often the history has the candidate's category, recent items counting more."
_CONTROLS = {
    BASELINE: _Control(
        "built-in baseline",
        "A logistic regression on counts of the history, popularity and history length.",
        "The model is above it: it has learned more than these counts.",
        "The difference to the model may be chance.",
        "The model is below it: the counts do better.",
    ),
    RECENCY: _Control(
        "recency alone",
        _COUNTED,
        "The model is above it.",
        "This one number does as well as the model.",
        "This one number does better than the model.",
    ),
    POPULARITY: _Control(
        "popularity alone",
        "How often the candidate occurs in the data.",
        "The model is above it.",
        "This one number does as well as the model.",
        "This one number does better than the model.",
    ),
    OTHER_HISTORY: _Control(
        "another user's history",
        "The model, with histories exchanged between users.",
        "It loses: its score rests on the user's own history.",
        "It loses little or nothing: whose history it reads does not matter.",
        "It gains: the user's own history misleads it.",
    ),
    EMPTY_HISTORY: _Control(
        "empty history",
        "The model, without any history.",
        "It loses: what is left comes from the candidate and the user's id.",
        "It loses little or nothing: it does not use histories.",
        "It gains: histories mislead it.",
    ),
    UNKNOWN_USER: _Control(
        "unknown user",
        "The model, with the id of an unknown user.",
        "It loses: a part of its score is memorised users, which new users lack.",
        "It loses little or nothing: it does not rest on the user's id.",
        "It gains: memorised users mislead it.",
    ),
}


def rests_section(metrics: Mapping[str, Any]) -> Section:
    """The AUC of every control beside the model's own; without figures if nothing was measured."""
    title = "What the score rests on"
    rows = list(_rows(metrics))
    if len(rows) < 2:
        return Section(title, "", [])
    level = f"{100 * metrics['test_auc_confidence']:g} %"
    ends = [end for row, _ in rows for end in (row.interval or (row.value, row.value))]
    chart = interval_chart([row for row, _ in rows], spanning("AUC", [*ends, 0.5]))
    meaning = table(("", "AUC", "model above it by", "meaning"), [cells for _, cells in rows])
    return Section(
        title,
        _text(metrics),
        [
            Figure("AUC of the model and of its controls", chart, f"Whiskers are {level} intervals.", wide=True),
            Figure(
                "What they mean", meaning, f"Differences, with {level} intervals, are of the same samples.", wide=True
            ),
        ],
    )


def _text(metrics: Mapping[str, Any]) -> str:
    rows, trained = metrics.get("test_controls_rows"), metrics.get("test_controls_training_rows")
    if rows is None:
        return "The model beside the best possible score of generated data."
    drawn = f"all {rows:,}" if rows == metrics["test_rows"] else f"{rows:,} random ones of {metrics['test_rows']:,}"
    fitted = f" The baselines were fitted on {trained:,} training samples and saw no test sample." if trained else ""
    return f"Scores without the model, and scores of the model with changed input, on {drawn} test samples.{fitted}"


def _rows(metrics: Mapping[str, Any]) -> Iterator[tuple[Row, tuple[str, ...]]]:
    own = "test_controls_auc" if "test_controls_auc" in metrics else "test_auc"
    yield _row("the model", metrics, own, "", "On these samples.", "one")
    if "test_best_auc" in metrics:
        best = metrics["test_best_auc"]
        sentence = "The true probabilities, which the data's generator knows: no model is above them but by chance."
        difference = f"{metrics['test_auc'] - best:+.4f}"
        yield Row("the best possible", best), ("the best possible", f"{best:.4f}", difference, sentence)
    for name, control in _CONTROLS.items():
        if metrics.get(f"test_{name}_auc") is None:
            continue
        gain, low, high = (metrics[f"test_auc_above_{name}{part}"] for part in ("", "_low", "_high"))
        difference = f"{gain:+.4f} ({low:+.4f} to {high:+.4f})"
        yield _row(control.name, metrics, f"test_{name}_auc", difference, control.meaning(gain, low, high))


def _row(
    name: str, metrics: Mapping[str, Any], key: str, difference: str, sentence: str, style: str = "two"
) -> tuple[Row, tuple[str, ...]]:
    value, low, high = (metrics[f"{key}{part}"] for part in ("", "_low", "_high"))
    return Row(name, value, (low, high), style), (name, f"{value:.4f} ({low:.4f} to {high:.4f})", difference, sentence)
