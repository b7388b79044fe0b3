"""The page: a task's story of the evaluation, the training curves, and the origin of data and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from components.checks.findings import describe, exceeded, not_compared
from components.checks.profile import PASSED, TIME, Finding, Profile, Table
from components.checks.profiler import format_time
from components.contract import Metric
from components.report.charts import Axis, Line, line_chart, spanning, table
from components.report.elements import Card, Figure, Section, Story

_HERE = Path(__file__).parent
# Data checks that are shown at least.
_CHECKS = 12


@dataclass(frozen=True)
class Facts:
    """The report's content besides the measurements.

    Attributes:
        title: the model, such as "SIM".
        run: id of the pipeline run or MLflow run.
        training: content of the model's training.json; empty if there is none.
        profile: of the raw data, None if unknown.
        written: the last line; empty is that of an evaluation.
    """

    title: str
    data: Mapping[str, Any]
    origins: Mapping[str, str]
    run: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    profile: Profile | None = None
    explanation: Sequence[Section] = ()
    about: str = "Evaluation of"
    written: str = ""


def render(story: Story, facts: Facts, metrics: Sequence[Metric]) -> str:
    """The report as a complete HTML document."""
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(_HERE), autoescape=True)
    environment.filters["number"] = _number
    training = Section("Training", _training_lead(facts.training), _training_charts(facts.training, metrics))
    checks = [_data_checks(facts.profile)] if facts.profile else []
    first = checks if facts.profile and exceeded(facts.profile.findings) else []
    last = [] if first else checks
    return environment.get_template("page.html").render(
        story=story,
        facts=facts,
        css=Markup((_HERE / "style.css").read_text()),
        cards=[*story.cards, *_speed(facts.training)],
        sections=[*first, *story.first, training, *story.sections, *facts.explanation, *last],
        data={name: _shown(value) for name, value in {**facts.data, **story.data}.items()},
    )


def _data_checks(profile: Profile) -> Section:
    """The size of the data, and the findings closest to or above their limits."""
    above = exceeded(profile.findings)
    if profile.compared:
        summary = f"{len(profile.findings)} checks against the reference, {len(above)} above their limits."
        if profile.uncompared:
            left_out = not_compared(profile.uncompared)
            summary += f" {left_out[0].upper()}{left_out[1:]}."
    else:
        summary = "There was no reference (parameter reference_profile), so nothing could be compared."
    return Section(
        "Data checks",
        f"The raw data, before preprocessing. {summary}",
        [*_above_limits(above), _what_was_read(profile), *_against_reference(profile)],
    )


def _above_limits(findings: Sequence[Finding]) -> list[Figure]:
    rows = [(describe(finding),) for finding in findings]
    note = "Data that differ from those of the reference: a model that was trained on them may be worse on either."
    return [Figure("Above their limits", table(("data check",), rows), note)] if rows else []


def _what_was_read(profile: Profile) -> Figure:
    rows = [
        (name, f"{each.rows:,}", f"{each.malformed_share:.2%}", _share(each.duplicates), *_period(each))
        for name, each in profile.tables.items()
    ]
    chart = table(("table", "rows", "malformed", "duplicates", "from", "to"), rows)
    return Figure("What was read", chart, "Times are UTC. Shares of duplicates come from a sample of the rows' keys.")


def _against_reference(profile: Profile) -> list[Figure]:
    order = sorted(profile.findings, key=lambda finding: (finding.verdict == PASSED, -_nearness(finding)))
    rows = [
        (" ".join(filter(None, (each.table, each.column))), each.check, f"{each.value:.3f}", f"{each.limit:g}",
         "" if each.verdict == PASSED else each.verdict)
        for each in order[: max(_CHECKS, len(exceeded(profile.findings)))]
    ]  # fmt: skip
    chart = table(("what", "check", "found", "limit", ""), rows)
    note = (
        "Those above or nearest to their limits; profile.json has all. psi is the population stability index: below "
        "0.1 is stable, above 0.25 a shift. new is the share of values that the reference lacks."
    )
    return [Figure("Against the reference", chart, note)] if rows else []


def _nearness(finding: Finding) -> float:
    return finding.value / finding.limit if finding.limit else finding.value


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2%}"


def _period(table: Table) -> tuple[str, str]:
    times = [column for column in table.columns.values() if column.kind == TIME]
    return (format_time(times[0].lowest), format_time(times[0].highest)) if times else ("–", "–")


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


def _shown(value: Any) -> Any:
    """What is known of the data, such as a rate, or a rate of each column."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(each)}" for name, each in value.items())
    return f"{value:.4g}" if isinstance(value, float) else value


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
