"""Moves the aliases of a registered model while other steps may do the same.

MLflow moves one alias at a time and has no compare-and-swap. A step therefore stores its decision with the version
before it moves an alias, looks at the champion again just before, and at the other steps' stored decisions afterwards.
Of two steps that replace the same champion at once, the one that stores its decision later sees the other: as another
champion before its move, or as a decision after it. The later version is then compared with the earlier one.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from components.register.comparison import Verdict
from components.register.gate import Decision
from components.register.registry import Promotion, Registry
from components.steps.parameters import REQUIRED
from components.tracking.champion import AWAITING, CHALLENGER, CHAMPION, JUDGED_AS
from components.tracking.standing import rolled_back

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


def decide(
    registry: Registry,
    version: ModelVersion,
    compare: Callable[[ModelVersion | None], Verdict],
    basis: str,
    *,
    approval: str,
) -> Verdict:
    """Decides about a version, or takes its earlier decision, and sets its alias.

    A decision holds for its basis until another version becomes champion; then it is made again before an alias moves.
    About a version that is the champion already nothing is decided from another basis, nor about one whose refit is.
    Ended at any moment, it leaves one champion, which has won its comparison, and can be called again.

    A version that was rolled back is not promoted, and with ``approval`` REQUIRED none is: it awaits approval.

    Args:
        compare: compares the version with a champion, or with None.
        basis: of ``compare``, see ``basis_of``.
        approval: AUTOMATIC or REQUIRED.
    """
    own = int(version.version)

    def judged(champion: ModelVersion | None) -> Verdict:
        return _allowed(compare(champion), version, approval)

    ended = _ended(registry)
    champion = registry.champion()
    stored = registry.decision(version)
    if stored and _number(champion) == own and (stored.decision.alias != CHAMPION or stored.basis != basis):
        return Verdict(_champion_already(stored.decision))
    if stored and champion and champion.tags.get(JUDGED_AS) == str(own):
        return Verdict(stored.decision)
    holds = stored and stored.basis == basis and _number(champion) in (stored.decision.champion_version, own)
    verdict = _allowed(Verdict(stored.decision), version, approval) if stored and holds else judged(champion)
    is_overlooked = False
    while True:
        registry.begin(version, verdict.decision, basis)
        now = registry.champion()
        if _number(now) not in (_number(champion), own):
            ended = _ended(registry)
            champion, is_overlooked = registry.champion(), False
            verdict = judged(champion)
            continue
        is_promoted = verdict.decision.alias == CHAMPION
        if champion and is_overlooked and not is_promoted and _number(now) == own:
            registry.set_alias(CHAMPION, champion)
        registry.set_alias(verdict.decision.alias, version)
        rival = _overlooked(registry, own, verdict.decision.champion_version, ended) if is_promoted else None
        against = judged(registry.version(rival)) if rival else None
        if rival is None or against is None or against.decision.champion_score is None:
            registry.end(version)
            return verdict
        champion, verdict, is_overlooked = registry.version(rival), against, True


def _allowed(verdict: Verdict, version: ModelVersion, approval: str) -> Verdict:
    """A verdict as far as persons leave it to the gate."""
    decision = verdict.decision
    if decision.alias != CHAMPION:
        return verdict
    if why := rolled_back(version):
        reason = f"{decision.reason} But {why}, so only kfrec promote makes it the champion again."
        return verdict._replace(decision=dataclasses.replace(decision, alias=CHALLENGER, reason=reason))
    if approval == REQUIRED:
        reason = f"{decision.reason} It awaits approval, by kfrec promote."
        return verdict._replace(decision=dataclasses.replace(decision, alias=AWAITING, reason=reason))
    return verdict


def basis_of(digest: str, gate: Mapping[str, Any]) -> str:
    """The basis of a decision.

    Args:
        digest: of the evaluation, or of the records that are scored.
    """
    return hashlib.sha256(json.dumps([digest, gate], sort_keys=True).encode()).hexdigest()[:16]


def _champion_already(earlier: Decision) -> Decision:
    """What is said about the champion itself: a comparison with another basis, or a user, has made it so."""
    reason = f"It is the champion already, so nothing is decided from this evaluation. Decided before: {earlier.reason}"
    return dataclasses.replace(earlier, alias=CHAMPION, reason=reason)


def _ended(registry: Registry) -> set[Promotion]:
    return {promotion for promotion, is_underway in registry.promotions().items() if not is_underway}


def _overlooked(registry: Registry, own: int, over: int | None, ended: set[Promotion]) -> int | None:
    """An earlier version whose step has replaced the same champion since, or is about to."""
    others = (each for each in registry.promotions() if each not in ended)
    return max((each.version for each in others if each.over == over and each.version < own), default=None)


def _number(version: ModelVersion | None) -> int | None:
    return int(version.version) if version else None
