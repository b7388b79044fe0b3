"""The promotion gate: the alias of a newly registered model, and the reason in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.metrics import Interval
from components.tasks import Metric
from components.tracking.champion import CHAMPION

CHALLENGER = "challenger"


@dataclass(frozen=True)
class Decision:
    """The promotion decision about a model, and its reason.

    Attributes:
        alias: "champion" or "challenger".
        reason: one sentence with the numbers.
        metric: name of the primary metric on the test split.
        score: the model's.
        champion_version: of the compared champion, None without a champion.
        champion_score: the champion's on the same test set, None if it could not be measured.
        difference: score - champion_score.
        confidence_interval: of the difference, low and high.
    """

    alias: str
    reason: str
    metric: str
    score: float
    champion_version: int | None = None
    champion_score: float | None = None
    difference: float | None = None
    confidence_interval: tuple[float, float] | None = None

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Decision:
        interval = body["confidence_interval"]
        return Decision(**{**body, "confidence_interval": tuple(interval) if interval else None})


def without_champion(metric: Metric, score: float, floor: float) -> Decision:
    """Decides about a model without a champion: it must be better than ``floor``."""
    is_better = score > floor if metric.higher_is_better else score < floor
    side = "above" if metric.higher_is_better else "below"
    verdict = f"the test {metric.label} {score:.4f} is {'' if is_better else 'not '}{side} the floor of {floor:g}."
    if is_better:
        return Decision(CHAMPION, f"There was no champion and {verdict}", _name(metric), score)
    return Decision(CHALLENGER, f"There is no champion, but {verdict}", _name(metric), score)


def not_comparable(metric: Metric, score: float, champion_version: int, why: str) -> Decision:
    """Decides about a model if the champion cannot be scored on its test set: it is not promoted."""
    reason = (
        f"Champion version {champion_version} cannot be scored on this test set, so the test {metric.label} "
        f"{score:.4f} has no comparison: {why.rstrip('.')}."
    )
    return Decision(CHALLENGER, reason, _name(metric), score, champion_version)


def against_champion(
    metric: Metric,
    score: float,
    champion_version: int,
    champion_score: float,
    difference: Interval,
    *,
    margin: float,
    confidence: float,
) -> Decision:
    """Decides about a model evaluated on the same samples as the champion.

    It must be better by ``margin``, and significantly: the confidence interval of the difference must exclude zero on
    the better side.
    """
    numbers = (
        f"Test {metric.label} {score:.4f} against {champion_score:.4f} of champion version {champion_version} on the "
        f"same samples: a difference of {difference.estimate:+.4f} "
        f"({100 * confidence:g} % interval {difference.low:+.4f} to {difference.high:+.4f})"
    )
    # Positive if the model is better, for either direction of the metric.
    up = 1 if metric.higher_is_better else -1
    if up * difference.estimate < margin:
        alias, verdict = CHALLENGER, f"which is below the margin of {margin:g}."
    elif min(up * difference.low, up * difference.high) <= 0:
        alias, verdict = CHALLENGER, "which may be chance, because the interval reaches zero."
    else:
        alias, verdict = CHAMPION, f"which is at least the margin of {margin:g} and more than chance."
    interval = (difference.low, difference.high)
    return Decision(
        alias,
        f"{numbers}, {verdict}",
        _name(metric),
        score,
        champion_version,
        champion_score,
        difference.estimate,
        interval,
    )


def _name(metric: Metric) -> str:
    return f"test_{metric.name}"
