"""Compares a model with the champion of its name, on the model's test split."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.register.gate import Decision, against_champion, not_comparable, without_champion
from components.register.registry import Registry
from components.report import Section
from components.scoring import ExportedModel, NotFinite, load_model, score_split, scoring_translation
from components.scoring.predictions import FILENAME as PREDICTIONS
from components.scoring.predictions import read_predictions
from components.steps.catalog import RegisterParameters
from components.tasks import Scores, TaskDefinition, difference_of, measured_with
from components.tracking.champion import download_version, judged_twin, other_task

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion

METRICS = "metrics.json"


class Verdict(NamedTuple):
    """A decision, and the sections with the curves of both models if they were compared."""

    decision: Decision
    sections: Sequence[Section] = ()


@dataclass(frozen=True)
class Candidate:
    """A model with its evaluation.

    Attributes:
        evaluated: the evaluate step's parameters.
        is_baseline: whether it is a baseline itself, which nothing is held against but its score.
    """

    parameters: RegisterParameters
    task: TaskDefinition
    spec: FeatureSpec
    evaluation: Path
    evaluated: Mapping[str, Any]
    metrics: Mapping[str, Any]
    score: float
    is_baseline: bool = False

    def against(self, registry: Registry, champion: ModelVersion | None) -> Verdict:
        """Compares it with a version of the registry; None is no champion."""
        task = self.task
        vetoes = () if self.is_baseline else tuple(task.vetoes(self.metrics, self.parameters))
        if champion is None:
            return Verdict(without_champion(task.primary, self.score, task.floor(self.parameters), vetoes))
        number = int(champion.version)
        if other := other_task(registry.client, champion, task.name):
            why = f"its task is {other} and this model's is {task.name}, so register this model under another name"
            return Verdict(not_comparable(task.primary, self.score, number, why))
        try:
            theirs = self.scores_of_version(registry, number)
            ours = dataclasses.replace(theirs, outputs=read_predictions(self.evaluation / PREDICTIONS).outputs)
            _require_equal_shapes(ours, theirs)
            difference = difference_of(
                task,
                ours,
                theirs,
                measured_with(task, self.evaluated),
                samples=self.parameters.bootstrap_samples,
                confidence=self.parameters.confidence,
            )
            sections = task.compared(ours, theirs)
        except Unscored as error:
            return Verdict(not_comparable(task.primary, self.score, number, str(error)))
        decision = against_champion(number, difference, margin=self.parameters.promotion_margin, vetoes=vetoes)
        return Verdict(decision, sections)

    def scores_of_version(self, registry: Registry, number: int) -> Scores:
        """The scores of the test split by a version of the registry, of a refit by its judged twin.

        Raises:
            Unscored: its files are gone, it cannot read the split, or it returns what is not finite.
        """
        with tempfile.TemporaryDirectory(prefix="kfrec-champion-") as folder:
            try:
                version = judged_twin(registry.client, registry.version(number)).version
                rival = load_model(download_version(registry.client, registry.name, version, Path(folder)))
                lookups = scoring_translation(self.spec, rival)
            except KfrecError as error:
                raise Unscored(str(error).replace(folder, "the registry")) from None
            return self.scores_of(rival, lookups, f"scoring version {version}")

    def scores_of(self, model: ExportedModel, lookups: Mapping[str, np.ndarray], title: str) -> Scores:
        """The scores of the test split by a model.

        Args:
            lookups: of ``components.scoring.scoring_translation``.

        Raises:
            Unscored: it returns what is not finite.
        """
        size = self.parameters.evaluation_batch_size
        try:
            scores = score_split(self.spec, model, self.task.kept, batch_size=size, lookups=lookups, title=title)
        except NotFinite:
            raise Unscored("it returns scores that are not finite numbers") from None
        return dataclasses.replace(scores, outputs=_Outputs(scores.outputs))


class Unscored(Exception):
    """Why a model cannot be scored."""


class _Outputs(dict[str, np.ndarray]):
    """The champion's outputs by name; the task decides which ones it needs."""

    def __missing__(self, name: str) -> np.ndarray:
        raise Unscored(f"it returns {', '.join(self)} and no {name}, as a model of another kfrec or task")


def _require_equal_shapes(ours: Scores, theirs: Scores) -> None:
    for name in ours.outputs.keys() & theirs.outputs.keys():
        one, other = (list(scores.outputs[name].shape[1:]) for scores in (ours, theirs))
        if one != other:
            raise Unscored(f"its output {name} has the shape {other} a sample, and this model's has {one}")
