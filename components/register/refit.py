"""A refit: a model that became the champion, trained again on everything, to be published in its place.

Metrics of a refit would be of samples that it has trained on, so it keeps those of its judged twin. The twin stays
registered: later models are compared with it, and warm starts begin from it. Before a refit is published, both score
the test samples. A refit knows these, so a worse score than the twin's, by more than chance, tells a broken training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.artifacts.notes import read_notes
from components.errors import KfrecError
from components.feature_spec import FeatureSpec
from components.register.comparison import Candidate, Unscored, Verdict
from components.register.gate import Decision
from components.register.promotion import decide
from components.register.registry import Registry
from components.scoring import ExportedModel, load_model
from components.tasks import Difference, difference_of, measured_with
from components.tracking.champion import CHALLENGER, CHAMPION, JUDGED_AS
from components.training_log import TRAINING

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


def publish(
    candidate: Candidate,
    registry: Registry,
    twin: ModelVersion | None,
    exported: ExportedModel,
    register: Callable[[dict[str, Any]], ModelVersion],
    basis: str,
) -> tuple[ModelVersion, Decision]:
    """Registers a refit in place of its judged twin, or keeps the twin.

    Args:
        candidate: the twin's evaluation, with the refit's data.
        register: takes the lineage and returns the refit's version, without an alias.
        basis: see ``components.register.promotion.basis_of``.

    Returns:
        The version that is published, and why.

    Raises:
        KfrecError: the twin is not registered.
    """
    if twin is None:
        raise KfrecError(f"{candidate.evaluation}: its model is not registered as {registry.name}; register it first")
    number = int(twin.version)
    champion = registry.champion()
    if champion is None or str(number) not in (str(champion.version), champion.tags.get(JUDGED_AS)):
        return twin, _superseded(candidate, number, champion)
    training = read_notes(exported.folder / TRAINING)
    about = trained_on(exported.spec, training)
    decision = compared_with_twin(candidate, registry, number, exported.folder, about)
    if decision.alias != CHAMPION:
        return twin, replace(decision, alias=CHAMPION)
    version = register({"judged_as": number, "trained_on": about, "epochs": training.get("exported_epoch")})

    def against(now: ModelVersion | None) -> Verdict:
        is_twin = now is not None and int(now.version) == number
        return Verdict(decision if is_twin else _superseded(candidate, number, now))

    return version, decide(registry, version, against, basis, approval=candidate.parameters.approval).decision


def compared_with_twin(candidate: Candidate, registry: Registry, twin: int, model: Path, about: str) -> Decision:
    """Scores a refit and its judged twin on the refit's test samples, and decides whether it is published.

    Args:
        twin: version of the judged twin.
        model: folder of the refit.
        about: what the refit has trained on.
    """
    task, parameters = candidate.task, candidate.parameters
    try:
        ours = candidate.scores_of(load_model(model), {}, "scoring the refit")
        difference = difference_of(
            task,
            ours,
            candidate.scores_of_version(registry, twin),
            measured_with(task, candidate.evaluated),
            samples=parameters.bootstrap_samples,
            confidence=parameters.confidence,
        )
    except Unscored as error:
        return _not_published(candidate, twin, f"it cannot be compared with version {twin}: {error}")
    return decided(candidate, twin, difference, about)


def decided(candidate: Candidate, twin: int, difference: Difference, about: str) -> Decision:
    """Publishes a refit unless it is worse than its judged twin by more than chance.

    Args:
        twin: version of the judged twin.
        difference: of the refit and its twin, on samples that the refit has trained on.
    """
    label = difference.metric.label
    scores = f"{label} {difference.score:.4f} against {difference.rival_score:.4f}, {difference}"
    # Without an interval nothing says that it is worse.
    if not difference.is_finite or difference.gain.high < 0:
        return _not_published(candidate, twin, f"on the test samples, which it has trained on, it has {scores}")
    reason = (
        f"It is version {twin}, trained again on {about}. Version {twin} was judged: test {label} "
        f"{candidate.score:.4f}. On the test samples, which the refit has trained on, it has {scores}."
    )
    return _decision(candidate, twin, CHAMPION, reason)


def _superseded(candidate: Candidate, twin: int, champion: ModelVersion | None) -> Decision:
    """Does not publish a refit whose judged twin is no longer the champion."""
    now = f"version {champion.version} is" if champion else "there is none"
    return _not_published(candidate, twin, f"version {twin} is no longer the champion, {now}")


def _not_published(candidate: Candidate, twin: int, why: str) -> Decision:
    return _decision(candidate, twin, CHALLENGER, f"The refit of version {twin} is not published: {why.rstrip('.')}.")


def _decision(candidate: Candidate, twin: int, alias: str, reason: str) -> Decision:
    return Decision(alias, reason, f"test_{candidate.task.primary.name}", candidate.score, twin)


def trained_on(spec: FeatureSpec, training: Mapping[str, Any]) -> str:
    """What a refit has trained on, such as "48,210 samples until 2026-11-27 23:59".

    Args:
        training: content of its training.json.
    """
    samples = f"{training.get('train_rows', 0):,} samples"
    if "train_end" not in spec.cuts:
        return samples
    newest = datetime.fromtimestamp((spec.cuts["train_end"] - 1) // 10**9, UTC)
    return f"{samples} until {newest:%Y-%m-%d %H:%M}"
