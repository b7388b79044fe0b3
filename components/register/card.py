"""The model card of a version, in Markdown: what it is for, its data, its scores, and what a person is to fill in.

Source: Mitchell et al. (2019), Model Cards for Model Reporting, https://arxiv.org/abs/1810.03993
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from components.checks.findings import describe, exceeded
from components.checks.profile import TIME, Profile
from components.checks.profiler import format_time
from components.feature_spec import FeatureSpec
from components.register.gate import Decision
from components.secrets import without_password
from components.tasks import Metric, TaskDefinition
from components.tracking.champion import standing

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
        decision: of the gate.
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
