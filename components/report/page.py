"""The page: a task's story of the evaluation, the training curves, and the origin of data and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from components.checks.findings import exceeded
from components.checks.profile import Profile
from components.contract import Metric
from components.report.charts import Axis, Line, line_chart, spanning
from components.report.data_checks import data_checks
from components.report.elements import Card, Figure, Section, Story

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Facts:
    """The report's content besides the measurements.

    Attributes:
        title: the model, such as "SIM".
        run: id of the pipeline run or MLflow run.
        training: content of the model's training.json; empty if there is none.
        data: rows of the table about the data.
        origins: artifact name to digest.
        profile: of the raw data, None if unknown.
        explanation: sections of the model about its outputs.
        about: kind of page, before the title.
        written: the last line; empty is that of an evaluation.
    """

    title: str
    run: str
    parameters: Mapping[str, Any]
    training: Mapping[str, Any]
    data: Mapping[str, Any]
    origins: Mapping[str, str]
    profile: Profile | None = None
    explanation: Sequence[Section] = ()
    about: str = "Evaluation of"
    written: str = ""


def render(story: Story, facts: Facts, metrics: Sequence[Metric]) -> str:
    """The report as a complete HTML document.

    Args:
        facts: about the model, the run and the data.
    """
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_HERE), autoescape=True)
    environment.filters["number"] = _number
    training = Section(
        "Training",
        _training_lead(facts.training),
        _training_charts(facts.training, metrics),
    )
    checks = [data_checks(facts.profile)] if facts.profile else []
    first = checks if facts.profile and exceeded(facts.profile.findings) else []
    return environment.get_template("page.html").render(
        story=story,
        facts=facts,
        css=Markup((_HERE / "style.css").read_text()),
        cards=[*story.cards, *_speed(facts.training)],
        sections=[
            *first,
            *story.first,
            training,
            *story.sections,
            *facts.explanation,
            *(checks if not first else []),
        ],
        data={**facts.data, **story.data},
    )


def _speed(training: Mapping[str, Any]) -> list[Card]:
    if not training.get("train_samples_per_second"):
        return []
    seconds = training.get("time_to_train")
    hint = f"samples/s; {_duration(seconds)} to train" if seconds else "samples/s in training"
    return [Card("Speed", training["train_samples_per_second"], hint)]


def _training_lead(training: Mapping[str, Any]) -> str:
    """What the charts show, and which epoch is exported."""
    lead = "How the model got there. A gap that opens between the two lines is overfitting."
    if not training.get("outcome"):
        return lead
    outcome = str(training["outcome"])
    return f"{lead} {outcome[0].upper()}{outcome[1:]}. The test split was not read."


def _training_charts(training: Mapping[str, Any], metrics: Sequence[Metric]) -> list[Figure]:
    """The first metric that an epoch has, and the losses, by epoch, on training and validation samples."""
    epochs: Sequence[Mapping[str, Any]] = training.get("epochs") or ()
    measured = {name for epoch in epochs for name in epoch}
    # Metrics of groups are not measured where validation samples lack others of their groups.
    primary = next((m for m in metrics if measured & {f"train_{m.name}", f"validation_{m.name}"}), metrics[0])
    losses = [metric for metric in metrics if metric.is_loss]
    charts = [
        (f"{primary.label} by epoch", primary.label, f"{'Higher' if primary.higher_is_better else 'Lower'} is better.",
         [("train", f"train_{primary.name}", "two"), ("validation", f"validation_{primary.name}", "one")]),
        ("Loss by epoch", "loss",
         "Lower is better. The training loss includes every term that is minimised, such as an auxiliary loss.",
         [("train", "train_loss", "two"), *((f"validation {m.label}", f"validation_{m.name}", "one") for m in losses)]),
    ]  # fmt: skip
    figures = []
    for title, what, note, curves in charts:
        lines = []
        for label, key, style in curves:
            points = [(float(e["epoch"]), float(e[key])) for e in epochs if e.get(key) is not None]
            if points:
                xs, ys = zip(*points, strict=True)
                lines.append(Line(label, xs, ys, style, dots=True))
        if lines:
            values = [value for line in lines for value in line.y]
            scale = spanning(what, values)
            exported = training.get("exported_epoch")
            if exported is not None:
                lines.append(Line("exported", (exported, exported), (scale.low, scale.high), "rule"))
            last = max(line.x[-1] for line in lines)
            ticks = tuple(float(t) for t in range(1, int(last) + 1, max(1, int(last) // 8)))
            axis = Axis("epoch", 0.8, last + 0.2, ticks)
            figures.append(Figure(title, line_chart(lines, axis, scale), note))
    return figures


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.4f}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
