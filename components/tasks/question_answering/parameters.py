"""Parameters of the task question_answering, and its metrics."""

from __future__ import annotations

from dataclasses import dataclass

from components.contract import Metric
from components.parameters import param
from components.text.settings import AnswerSettings

F1 = Metric("f1", "F1", of_groups=True)
EXACT_MATCH = Metric("exact_match", "EM", of_groups=True)


@dataclass(frozen=True)
class AnswerEvaluation(AnswerSettings):
    """Parameters of the evaluate step."""

    n_best: int = param(
        20, "Best spans of a question among which the report looks for the right one", unit="spans", at_least=1
    )


@dataclass(frozen=True)
class AnswerDecision:
    """Parameters of the register step."""

    require_answers: bool = param(
        True, "Promote a model only if its F1 is above that of leaving all questions unanswered by more than chance"
    )
    f1_floor: float = param(0.1, "A first model needs a test F1 above this to become champion", at_least=0, at_most=1)
