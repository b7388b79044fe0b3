"""The promotion gate: which alias a newly registered model gets, and why, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from components.metrics import Interval
from components.tracking.champion import CHAMPION

CHALLENGER = "challenger"


@dataclass(frozen=True)
class Decision:
    """What was decided about a model, and on which grounds.

    Attributes:
        alias: "champion" or "challenger".
        reason: one sentence with the numbers.
        auc: the model's test AUC.
        champion_version: version of the champion that it was held against, None where there was none.
        champion_auc: that champion's AUC on the same test set, None where it could not be measured.
        difference: auc - champion_auc.
        confidence_interval: of the difference, low and high.
    """

    alias: str
    reason: str
    auc: float
    champion_version: int | None = None
    champion_auc: float | None = None
    difference: float | None = None
    confidence_interval: tuple[float, float] | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Decision:
        interval = body["confidence_interval"]
        return Decision(**{**body, "confidence_interval": tuple(interval) if interval else None})


def without_champion(auc: float, floor: float) -> Decision:
    """Decides about a model when there is no champion yet: it has to be better than ``floor``."""
    if auc > floor:
        reason = f"There was no champion and the test AUC {auc:.4f} is above the floor of {floor:g}."
        return Decision(CHAMPION, reason, auc)
    reason = f"There is no champion, but the test AUC {auc:.4f} is not above the floor of {floor:g}."
    return Decision(CHALLENGER, reason, auc)


def not_comparable(auc: float, champion_version: int, why: str) -> Decision:
    """Decides about a model when the champion cannot be scored on its test set: nothing is proven."""
    reason = (
        f"Champion version {champion_version} cannot be scored on this test set, so the test AUC {auc:.4f} "
        f"has nothing to be held against: {why.rstrip('.')}."
    )
    return Decision(CHALLENGER, reason, auc, champion_version)


def against_champion(
    auc: float, champion_version: int, champion_auc: float, difference: Interval, *, margin: float, confidence: float
) -> Decision:
    """Decides about a model that was measured on the same samples as the champion.

    It has to be better by ``margin``, and better beyond chance: the confidence interval of the difference must lie
    above zero.
    """
    numbers = (
        f"Test AUC {auc:.4f} against {champion_auc:.4f} of champion version {champion_version} on the same samples: "
        f"a difference of {difference.estimate:+.4f} "
        f"({100 * confidence:g} % interval {difference.low:+.4f} to {difference.high:+.4f})"
    )
    if difference.estimate < margin:
        alias, verdict = CHALLENGER, f"which is below the margin of {margin:g}."
    elif difference.low <= 0:
        alias, verdict = CHALLENGER, "which may be chance, because the interval reaches zero."
    else:
        alias, verdict = CHAMPION, f"which is at least the margin of {margin:g} and more than chance."
    interval = (difference.low, difference.high)
    return Decision(alias, f"{numbers}, {verdict}", auc, champion_version, champion_auc, difference.estimate, interval)
