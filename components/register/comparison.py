"""Compares a model with the champion of its name, on the model's test split."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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
from components.tasks.controls import NO_INTERVAL
from components.tracking.champion import CHALLENGER, CHAMPION, download_version, judged_twin, other_task

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
        is_baseline: whether it is a baseline itself, which need not beat the built-in one.
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
        verdict = self._against(registry, champion)
        decision = replace(verdict.decision, positives=self.metrics.get("test_positives"))
        is_next = champion is not None and decision.alias == CHAMPION
        if is_next and (days := self.parameters.promote_after_days):
            reason = (
                f"{decision.reason} It becomes the champion when feedback finds it better on {days} days of served "
                "rows, too."
            )
            decision = replace(decision, alias=CHALLENGER, reason=reason, after_days=days)
        return verdict._replace(decision=decision)

    def _against(self, registry: Registry, champion: ModelVersion | None) -> Verdict:
        task, vetoes = self.task, self._vetoes()
        if champion is None:
            floor, guessing = task.floor(self.parameters), task.guessing(self.metrics)
            return Verdict(without_champion(task.primary, self.score, floor, vetoes, guessing=guessing))
        number = int(champion.version)
        if other := other_task(registry.client, champion, task.name):
            why = f"its task is {other} and this model's is {task.name}, so register this model under another name"
            return Verdict(not_comparable(task.primary, self.score, number, why))
        try:
            theirs = self.scores_of_version(registry, number)
            ours = replace(theirs, outputs=read_predictions(self.evaluation / PREDICTIONS).outputs)
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

    def _vetoes(self) -> Sequence[str]:
        """The reasons against it whatever its score; without an interval of its score that is the only one."""
        primary = self.task.primary
        if self.metrics.get(f"test_{primary.name}_low", self.score) is None:
            positives = self.metrics.get("test_positives")
            those = "" if positives is None else f"; the test split has {positives:,} positives"
            return [f"the test {primary.label} {self.score:.4f} has {NO_INTERVAL}{those}"]
        against_baseline = () if self.is_baseline else self.task.baseline_vetoes(self.metrics, self.parameters)
        return [*self.task.vetoes(self.metrics, self.parameters), *against_baseline]

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
        return replace(scores, outputs=_Outputs(scores.outputs))


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
