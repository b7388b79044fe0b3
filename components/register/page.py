"""The page about a promotion decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.artifacts import Artifact
from components.register.gate import Decision
from components.report import Card, Section, Story
from components.report.page import Facts, render
from components.tasks import Metric


def decision_page(
    name: str,
    version: int,
    decision: Decision,
    sections: Sequence[Section],
    metrics: Sequence[Metric],
    noted: Mapping[str, Any],
    inputs: Mapping[str, Artifact],
) -> str:
    """The decision with its numbers and curves, as a complete HTML document.

    Args:
        name: of the registered model.
        decision: about the version.
        sections: of the task, if this step compared the model with a champion.
        noted: the registry's facts about data and trigger.
        inputs: of the step, by name.
    """
    label = metrics[0].label
    cards = [Card(f"Test {label}", decision.score, "of this model", main=True)]
    if decision.champion_score is not None:
        cards.append(Card("Champion", decision.champion_score, f"version {decision.champion_version}"))
    if decision.difference is not None and decision.confidence_interval is not None:
        low, high = decision.confidence_interval
        is_better = decision.difference >= 0 if metrics[0].higher_is_better else decision.difference <= 0
        # In the direction that the card names.
        ends = sorted((low, high) if decision.difference >= 0 else (-low, -high))
        direction = "Better by" if is_better else "Worse by"
        cards.append(Card(direction, abs(decision.difference), f"{ends[0]:+.4f} to {ends[1]:+.4f}"))
    story = Story(f"Version {version} is the {decision.alias}", decision.reason, cards, sections)
    facts = Facts(
        title=name,
        run="",
        parameters={},
        training={},
        data=noted,
        origins={name: artifact.digest for name, artifact in inputs.items()},
        about="Promotion decision about",
        written="Written by the register step of kfrec. The decision is in registration.json.",
    )
    return render(story, facts, metrics)
