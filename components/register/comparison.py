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
from components.scoring import NotFinite, load_model, score_split, scoring_translation
from components.scoring.predictions import FILENAME as PREDICTIONS
from components.scoring.predictions import read_predictions
from components.steps.catalog import RegisterParameters
from components.tasks import Scores, TaskDefinition, difference_of, measured_with
from components.tracking.champion import download_version, other_task

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
            theirs = self._scored(registry, number)
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
        except _Unscored as error:
            return Verdict(not_comparable(task.primary, self.score, number, str(error)))
        decision = against_champion(number, difference, margin=self.parameters.promotion_margin, vetoes=vetoes)
        return Verdict(decision, sections)

    def _scored(self, registry: Registry, champion: int) -> Scores:
        """The champion's scores of the model's test split.

        Raises:
            _Unscored: its files are gone, it cannot read the split, or it returns what is not finite.
        """
        with tempfile.TemporaryDirectory(prefix="kfrec-champion-") as folder:
            try:
                rival = load_model(download_version(registry.client, registry.name, str(champion), Path(folder)))
                lookups = scoring_translation(self.spec, rival)
            except KfrecError as error:
                raise _Unscored(str(error).replace(folder, "the registry")) from None
            try:
                scores = score_split(
                    self.spec,
                    rival,
                    self.task.kept,
                    batch_size=self.parameters.evaluation_batch_size,
                    lookups=lookups,
                    title=f"scoring champion version {champion}",
                )
            except NotFinite:
                raise _Unscored("it returns scores that are not finite numbers") from None
            return dataclasses.replace(scores, outputs=_Outputs(scores.outputs))


class _Unscored(Exception):
    """Why the champion cannot be scored."""


class _Outputs(dict[str, np.ndarray]):
    """The champion's outputs by name; the task decides which ones it needs."""

    def __missing__(self, name: str) -> np.ndarray:
        raise _Unscored(f"it returns {', '.join(self)} and no {name}, as a model of another kfrec or task")


def _require_equal_shapes(ours: Scores, theirs: Scores) -> None:
    for name in ours.outputs.keys() & theirs.outputs.keys():
        one, other = (list(scores.outputs[name].shape[1:]) for scores in (ours, theirs))
        if one != other:
            raise _Unscored(f"its output {name} has the shape {other} a sample, and this model's has {one}")
