"""Other versions in the shade: they score the rows that the champion has answered, so both are judged on the same rows.

Only rows count that were served after the other version was registered: it may have been trained on earlier ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from components.errors import KfrecError
from components.feedback.live import Models, recomputed, scores_of
from components.parameters import build
from components.progress import warn
from components.tasks import Difference, TaskDefinition, difference_of
from components.tracking.champion import CHALLENGER, versions_of
from components.tracking.standing import DECISION, rolled_back

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion


@dataclass(frozen=True)
class Shaded:
    """Another version beside the one that was served.

    Attributes:
        rows: labelled rows that both scored.
        days: on which these were served.
        difference: its metric minus that of the served version, with the paired interval.
    """

    version: str
    rows: int
    days: int
    difference: Difference

    @property
    def is_better(self) -> bool:
        """Whether it is, by more than chance."""
        return self.difference.is_finite and self.difference.gain.low > 0

    def __str__(self) -> str:
        found = self.difference
        return (
            f"Version {self.version} in the shade: {found.metric.label} {found.score:.4f} against "
            f"{found.rival_score:.4f} on the same {self.rows:,} rows of {self.days} days: {found}."
        )

    @property
    def body(self) -> dict[str, Any]:
        """For live.json."""
        found = self.difference
        return {
            "version": self.version,
            "rows": self.rows,
            "days": self.days,
            "score": found.score,
            "champion_score": found.rival_score,
            **found.interval.metrics("difference"),
        }


def waits_for(version: ModelVersion) -> int:
    """Days of served rows on which the gate wants to see a version better; 0 for one that does not wait."""
    return int(json.loads(version.tags.get(DECISION, "{}")).get("after_days") or 0)


def is_due(version: ModelVersion, found: Shaded) -> bool:
    """Whether a version that waits has been better by more than chance, for as many days as the gate wants."""
    days = waits_for(version)
    return 0 < days <= found.days and not rolled_back(version) and found.is_better


def challengers_of(client: MlflowClient, name: str, champion: str) -> list[ModelVersion]:
    """The challenger, and the newer versions than the champion that wait for live rows; oldest first."""
    held = client.get_registered_model(name).aliases
    versions = {str(version.version): version for version in versions_of(client, name)}
    wanted = {str(held.get(CHALLENGER, ""))}
    wanted |= {number for number, version in versions.items() if waits_for(version)}
    return [versions[number] for number in sorted(wanted & versions.keys(), key=int) if int(number) > int(champion)]


def shaded(
    rows: pd.DataFrame, others: Sequence[ModelVersion], models: Models, task: TaskDefinition, size: int
) -> Iterator[tuple[ModelVersion, Shaded]]:
    """Compares other versions with the one that answered.

    Args:
        rows: labelled rows with a score of the served version.
        size: rows scored at a time.
    """
    for held in others:
        number = str(held.version)
        own = rows[(rows["time"] > held.creation_timestamp * 1000) & rows["columns"].notna()]
        model = models.of(number) if len(own) else None
        if model is None:
            continue
        try:
            probabilities = np.concatenate([part for part, _ in recomputed(own, model, size)])
            theirs = scores_of(own, own["probability"].to_numpy(), task)
            task.require(theirs, "the served rows")
            ours = scores_of(own, probabilities, task)
            found = difference_of(task, ours, theirs, build(task.evaluation, {}))
        except (KfrecError, KeyError) as error:
            warn("feedback", f"version {number} not compared", f"version {number} cannot be compared live: {error}")
            continue
        yield held, Shaded(number, len(own), own["day"].nunique(), found)
