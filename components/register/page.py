"""decision.html: the decision with its numbers and curves, what the model starts from, and the versions before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from components.register.gate import Decision
from components.register.registry import Registry
from components.report import Card, Figure, Section, Story, table
from components.report.page import Facts, render
from components.secrets import without_password
from components.tasks import Metric
from components.tracking.champion import DATA_VERSION, ROWS, standing, versions_of

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
    """What a model started from, by what it took.

    Args:
        parameters: of its training.
    """
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
