"""When a model's best span is the answer of a question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.parameters import build, param, parameters_of
from components.text.answers import Answers


@dataclass(frozen=True)
class AnswerSettings:
    """Parameters of tasks that answer questions, of train and evaluate; served answers have those of the training."""

    max_answer_length: int = param(30, "Tokens of the longest answer", unit="tokens", at_least=1)
    null_threshold: float = param(
        -5.6,
        "Where questions may have no answer: log-odds of having none above which a question is left unanswered; "
        "the report names the best one for the test split",
        at_least=-1e9,
        at_most=1e9,
    )

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> AnswerSettings:
        """The settings among the parameters of a training; those that it lacks have their defaults."""
        known = {each.name for each in parameters_of(AnswerSettings)}
        settings: AnswerSettings = build(AnswerSettings, {k: v for k, v in parameters.items() if k in known})
        return settings

    def is_empty(self, found: Answers) -> np.ndarray:
        """Which questions are left unanswered, by their best spans; bool ``[questions]``."""
        return (found.begin < 0) | (found.impossible > self.null_threshold)
