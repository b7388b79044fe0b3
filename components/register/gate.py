"""The promotion gate: the alias of a newly registered model, and the reason in one sentence.

Nothing that is not finite is promoted: no score, no champion's score, no difference and no end of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.tasks import Difference, Metric
from components.tracking.champion import CHALLENGER, CHAMPION

_BY_HAND = "to replace that champion nevertheless, promote this version with kfrec promote"


@dataclass(frozen=True)
class Decision:
    """The promotion decision about a model, and its reason.

    Attributes:
        alias: "champion" or "challenger"; "awaiting-approval" of a champion-to-be that a person is to approve.
        score: the model's.
        champion_version: of the compared champion, None without a champion.
        champion_score: the champion's on the same test set, None if it could not be measured.
        difference: score - champion_score, None if it is not finite.
        confidence_interval: of the difference, low and high, None if there is none or one is not finite.
        positives: test samples of label 1, None of other tasks.
        after_days: days of live rows on which it is to be better before feedback makes it the champion; 0 for one that
            does not wait.
    """

    alias: str
    reason: str
    metric: str
    score: float
    champion_version: int | None = None
    champion_score: float | None = None
    difference: float | None = None
    confidence_interval: tuple[float, float] | None = None
    positives: int | None = None
    after_days: int = 0

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Decision:
        interval = body["confidence_interval"]
        return Decision(**{**body, "confidence_interval": tuple(interval) if interval else None})


def without_champion(
    metric: Metric, score: float, floor: float, vetoes: Sequence[str] = (), *, guessing: float = 0.0
) -> Decision:
    """Decides about a model without a champion: it must be better than guessing by more than ``floor``.

    Args:
        floor: to beat; a ceiling where lower is better.
        guessing: the metric of guessing, which is added to the floor.
        vetoes: further reasons against the model, each a clause such as "it is not better than the baseline".
    """
    side, bound = ("above", "floor") if metric.higher_is_better else ("below", "ceiling")
    limit = f"{side} the {bound} of {guessing + floor:g}"
    limit += f", {floor:g} above guessing" if guessing else ""
    against = list(vetoes)
    if not math.isfinite(score):
        against.insert(0, f"the test {metric.label} is {score}, not a finite number")
    elif not (score > guessing + floor if metric.higher_is_better else score < guessing + floor):
        against.insert(0, f"the test {metric.label} {score:.4f} is not {limit}")
    if against:
        return Decision(CHALLENGER, f"There is no champion, but {'; '.join(against)}.", f"test_{metric.name}", score)
    reason = f"There was no champion and the test {metric.label} {score:.4f} is {limit}."
    return Decision(CHAMPION, reason, f"test_{metric.name}", score)


def not_comparable(metric: Metric, score: float, champion_version: int, why: str) -> Decision:
    """Decides about a model if the champion cannot be scored on its test set: it is not promoted.

    A broken champion is only replaced by hand, which the reason says.
    """
    reason = (
        f"Champion version {champion_version} cannot be scored on this test set, so the test {metric.label} "
        f"{score:.4f} has no comparison: {why.rstrip('.')}; {_BY_HAND}."
    )
    return Decision(CHALLENGER, reason, f"test_{metric.name}", score, champion_version)


def against_champion(
    champion_version: int, difference: Difference, *, margin: float, vetoes: Sequence[str] = ()
) -> Decision:
    """Decides about a model evaluated on the same samples as the champion.

    It must be better by ``margin``, and significantly: the confidence interval of the difference must exclude zero on
    the better side, and come from enough independent units.

    Args:
        margin: to reach, in the unit of the metric.
        vetoes: as of ``without_champion``.
    """
    metric, gain, interval = difference.metric, difference.gain, difference.interval
    if math.isfinite(difference.score) and not math.isfinite(difference.rival_score):
        why = f"its test {metric.label} is {difference.rival_score}, not a finite number"
        return not_comparable(metric, difference.score, champion_version, why)
    is_better = False
    if not difference.is_finite:
        verdict = "which is not finite, so the champion stays"
    elif gain.estimate < 0:
        verdict = "so the champion stays"
    elif gain.estimate < margin:
        verdict = f"which is below the margin of {margin:g}"
    elif difference.has_too_few:
        verdict = f"which may be chance, because {difference.doubt}"
    elif gain.low <= 0:
        verdict = "which may be chance, because the interval reaches zero"
    else:
        verdict, is_better = f"which is at least the margin of {margin:g} and more than chance", True
    ends = None if difference.has_too_few else (interval.low, interval.high)
    against = f"{', but' if is_better else '; also,'} {'; '.join(vetoes)}" if vetoes else ""
    return Decision(
        CHAMPION if is_better and not vetoes else CHALLENGER,
        f"Test {metric.label} {difference.score:.4f} against {difference.rival_score:.4f} of champion version "
        f"{champion_version} on the same samples: {difference}, {verdict}{against}.",
        f"test_{metric.name}",
        difference.score,
        champion_version,
        difference.rival_score,
        *((interval.estimate, ends) if difference.is_finite else ()),
    )
