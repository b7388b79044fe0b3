"""Moves the aliases of a registered model while other steps may do the same.

MLflow moves one alias at a time and has no compare-and-swap. A step therefore notes its decision with the version
before it moves an alias, looks at the champion again just before, and afterwards at the decisions that others have
noted meanwhile. Of two steps that promote over the same champion at once, at least the later one to note its decision
sees the other: before the move, as another champion, or after it. Then the later version is judged against the earlier.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from components.register.judging import Judged
from components.register.registry import Registry
from components.tracking.champion import CHAMPION

if TYPE_CHECKING:
    from mlflow.entities.model_registry import ModelVersion


def settle(registry: Registry, version: ModelVersion, judge: Callable[[ModelVersion | None], Judged]) -> Judged:
    """Decides about a version, or takes its earlier decision, and sets its alias.

    A decision holds until another version becomes champion; then it is made again before an alias moves. Ended at any
    moment, it leaves one champion, which has won its comparison, and can be called again.

    Args:
        registry: of the model.
        version: to decide about.
        judge: compares the version with a champion, or with None.
    """
    own = int(version.version)
    seen = registry.promotions()
    champion, is_overlooked = registry.champion(), False
    earlier = registry.decision(version)
    holds = earlier and _number(champion) in (earlier.champion_version, own)
    judged = Judged(earlier) if earlier and holds else judge(champion)
    while True:
        registry.note_decision(version, judged.decision)
        now = registry.champion()
        if _number(now) not in (_number(champion), own):
            seen = registry.promotions()
            champion, is_overlooked = registry.champion(), False
            judged = judge(champion)
            continue
        if champion and is_overlooked and judged.decision.alias != CHAMPION and _number(now) == own:
            registry.set_alias(CHAMPION, champion)
        registry.set_alias(judged.decision.alias, version)
        overlooked = [number for number, _ in registry.promotions() - seen if number < own]
        if not overlooked:
            return judged
        seen = registry.promotions()
        champion, is_overlooked = registry.version(max(overlooked)), True
        judged = judge(champion)


def _number(version: ModelVersion | None) -> int | None:
    return int(version.version) if version else None
