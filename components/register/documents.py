"""What people read of a version: decision.html, and the model card in Markdown.

The page has the decision with its numbers and curves, what the model starts from, and the versions before it; the card
has what the model is for, its data, its scores, and what a person is to fill in.

Source of the card: Mitchell et al. (2019), Model Cards for Model Reporting, https://arxiv.org/abs/1810.03993
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from components.checks.findings import describe, exceeded
from components.checks.profile import TIME, Profile
from components.checks.profiler import format_time
from components.feature_spec import FeatureSpec
from components.register.gate import Decision
from components.register.registry import Registry
from components.report import Card, Figure, Section, Story, table
from components.report.page import Facts, render
from components.secrets import without_password
from components.tasks import Metric, TaskDefinition
from components.tracking.champion import DATA_VERSION, ROWS, standing, versions_of

FILENAME = "card.md"
# What only a person knows.
_TO_FILL_IN = (
    "Not intended for", "Owner and contact", "Licence of the model", "Licence of the data", "Personal data",
)  # fmt: skip
_BLANK = "*to be filled in*"


def card(
    title: str,
    decision: Decision,
    takes: str,
    task: TaskDefinition,
    spec: FeatureSpec,
    metrics: Mapping[str, Any],
    data: Mapping[str, Any],
    profile: Profile | None,
) -> str:
    """The card.

    Args:
        title: name and version.
        takes: inputs and outputs, for users.
        spec: of the data that the model was judged on, or, of a refit, has trained on.
        metrics: of the evaluation; of a refit those of its judged twin.
        data: facts about the data, such as data_version and rows.
        profile: of the raw data; None if unknown.
    """
    parts = {
        "Intended use": [takes],
        "Data": [f"- {name.replace('_', ' ')}: {without_password(str(value))}" for name, value in data.items()]
        + [f"- {what}: {_time(moment)} (UTC)" for what, moment in _moments(spec)]
        + [*_spans(profile)],
        "Drift": _drift(profile),
        f"Test {task.primary.label}": [*_scores(metrics, task.primary)],
        "Groups": [*_groups(metrics, task.primary)] or ["The task has none."],
        "Decision": [f"It is {standing(decision.alias)}. {decision.reason}"],
        "To be filled in": [f"- {name}: {_BLANK}" for name in _TO_FILL_IN],
    }
    return f"# {title}\n\n" + "\n\n".join(f"## {name}\n\n" + "\n".join(lines) for name, lines in parts.items()) + "\n"


def _spans(profile: Profile | None) -> Iterator[str]:
    """The times that the raw data span."""
    for name, held in (profile.tables if profile else {}).items():
        for column, each in held.columns.items():
            if each.kind == TIME:
                span = f"{format_time(each.lowest)} to {format_time(each.highest)} (UTC)"
                yield f"- {name}: {held.rows:,} rows, {column} {span}"


def _drift(profile: Profile | None) -> list[str]:
    """The data checks above their limits."""
    if profile is None or not profile.compared:
        return ["The data were compared with no earlier ones."]
    found = [f"- {describe(finding)}" for finding in exceeded(profile.findings)]
    return found or [f"None of {len(profile.findings)} data checks is above its limit."]


def _moments(spec: FeatureSpec) -> Iterator[tuple[str, int]]:
    words = {"train_end": "trained on events before", "test_begin": "tested on events from"}
    for name, moment in spec.cuts.items():
        yield words[name], moment


def _time(nanoseconds: int) -> str:
    return f"{datetime.fromtimestamp(nanoseconds // 10**9, UTC):%Y-%m-%d %H:%M}"


def _scores(metrics: Mapping[str, Any], primary: Metric) -> Iterator[str]:
    """The model and the baselines, each with its interval."""
    rows, positives = (metrics.get(f"test_{name}") for name in ("rows", "positives"))
    yield "| | score | interval |"
    yield "|---|---|---|"
    pattern = re.compile(rf"test_(?:(?!{primary.name}_above_)(.+)_)?{primary.name}")
    for name, value in metrics.items():
        if (found := pattern.fullmatch(name)) and isinstance(value, float):
            ends = [metrics.get(f"{name}_{end}") for end in ("low", "high")]
            shown = f"{ends[0]:.4f} to {ends[1]:.4f}" if all(isinstance(end, float) for end in ends) else ""
            yield f"| {(found[1] or 'this model').replace('_', ' ')} | {value:.4f} | {shown} |"
    if rows:
        of_those = f", {positives:,} of them positive" if positives is not None else ""
        yield f"\n{rows:,} test samples{of_those}."


def _groups(metrics: Mapping[str, Any], primary: Metric) -> Iterator[str]:
    """The metric of each group of test samples, such as lengths of histories."""
    for name, groups in metrics.items():
        if name.startswith("by_") and isinstance(groups, list):
            for group in groups:
                score = group.get(primary.name)
                if isinstance(score, float):
                    of = " to ".join(str(group[end]) for end in ("from", "to") if group.get(end) is not None)
                    of = of or next((value for value in group.values() if isinstance(value, str)), "")
                    yield f"- {name[3:].replace('_', ' ')} {of}: {score:.4f}, {group.get('rows', 0):,} samples"


# Newest versions that are shown.
_SHOWN = 10
# Parameters of a training that name the model to start from, and what it takes from there.
_STARTS = {"warm_start_path": "weights from", "continue_path": "weights and moments from"}


def decision_page(
    version: int, decision: Decision, whose: str, sections: Sequence[Section], metric: Metric, facts: Facts
) -> str:
    """The decision with its numbers and curves, as a complete HTML document.

    Args:
        whose: the test score is, such as "of this model".
        sections: below the numbers.
    """
    label = metric.label
    positives = "" if decision.positives is None else f", {decision.positives:,} positives"
    cards = [Card(f"Test {label}", decision.score, f"{whose}{positives}", main=True)]
    if decision.champion_score is not None:
        cards.append(Card("Champion", decision.champion_score, f"version {decision.champion_version}"))
    if decision.difference is not None:
        is_better = decision.difference >= 0 if metric.higher_is_better else decision.difference <= 0
        shown = "too few for an interval"
        if decision.confidence_interval is not None:
            low, high = decision.confidence_interval
            # In the direction that the card names.
            ends = sorted((low, high) if decision.difference >= 0 else (-low, -high))
            shown = f"{ends[0]:+.4f} to {ends[1]:+.4f}"
        cards.append(Card("Better by" if is_better else "Worse by", abs(decision.difference), shown))
    story = Story(f"Version {version} is {standing(decision.alias)}", decision.reason, cards, sections)
    return render(story, facts, [metric])


def started_from(parameters: Mapping[str, Any]) -> dict[str, str]:
    """What a model started from, by what it took."""
    given = {what: without_password(parameters[name]) for name, what in _STARTS.items() if parameters.get(name)}
    return given or ({"starts from": "no earlier model"} if parameters else {})


def earlier_versions(registry: Registry, version: int, metric: Metric) -> list[Section]:
    """A table of the newest versions before one, with the decision about each; none before the first."""
    earlier = [held for held in versions_of(registry.client, registry.name) if int(held.version) < version]
    rows = []
    for held in sorted(earlier, key=lambda held: -int(held.version))[:_SHOWN]:
        stored = registry.decision(held)
        rows.append(
            (
                str(held.version),
                f"{datetime.fromtimestamp(held.creation_timestamp / 1000, UTC):%Y-%m-%d %H:%M}",
                held.tags.get(DATA_VERSION, ""),
                held.tags.get(ROWS, ""),
                f"{stored.decision.score:.4f}" if stored else "",
                stored.decision.alias if stored else "",
            )
        )
    if not rows:
        return []
    header = ("version", "registered (UTC)", "data", "rows", f"test {metric.label}", "it became")
    note = "Each on the test samples of its own data: scores of different data cannot be compared."
    text = f"The versions of {registry.name} before this one, newest first."
    return [
        Section("Earlier versions", text, [Figure("What was decided about them", table(header, rows), note, wide=True)])
    ]
