"""The answers to the questions of a split, and how well they match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.metrics.answer_match import answer_match
from components.text.answers import Answers, Spans, Windows, answers, valid_spans
from components.text.outputs import SPAN_ENDS, SPAN_SCORES, SPAN_STARTS
from components.text.settings import AnswerSettings
from components.text.tables import WINDOW, QuestionTables


@dataclass(frozen=True)
class Judged:
    """Questions in ascending order of their numbers.

    Attributes:
        found: their best spans.
        texts: of these spans; empty without one.
        empty: which are left unanswered, bool.
        of_spans: exact match and F1 if the question is answered with its best span, float64 ``[questions, 2]``.
        of_nothing: the same if it is left unanswered.
    """

    found: Answers
    texts: Sequence[str]
    empty: np.ndarray
    of_spans: np.ndarray
    of_nothing: np.ndarray

    @property
    def matches(self) -> np.ndarray:
        """Exact match and F1, float64 ``[questions, 2]``."""
        return np.where(self.empty[:, None], self.of_nothing, self.of_spans)


def windows_of(kept: Mapping[str, np.ndarray]) -> Windows:
    """The windows of samples, by the task's kept columns."""
    return Windows(*(kept[name].astype(np.int64) for name in WINDOW))


def spans_of(windows: Windows, outputs: Mapping[str, np.ndarray], settings: AnswerSettings) -> Spans:
    """The valid spans of windows."""
    return valid_spans(
        windows, outputs[SPAN_STARTS], outputs[SPAN_ENDS], outputs[SPAN_SCORES], settings.max_answer_length
    )


def judge(
    windows: Windows, impossible: np.ndarray, spans: Spans, tables: QuestionTables, settings: AnswerSettings
) -> Judged:
    """Answers questions.

    Args:
        windows: all windows of the questions.
        impossible: output IMPOSSIBLE of the windows.
        tables: texts and accepted answers.
        settings: when a question is left unanswered.
    """
    found = answers(windows, impossible, spans)
    texts = [
        tables.text(question, begin, end) if begin >= 0 else ""
        for question, begin, end in zip(found.question, found.begin, found.end, strict=True)
    ]
    accepted = [tables.answers[question] for question in found.question]
    return Judged(
        found,
        texts,
        settings.is_empty(found),
        _matches(zip(texts, accepted, strict=True)),
        _matches(("", each) for each in accepted),
    )


def _matches(pairs: Iterable[tuple[str, Sequence[str]]]) -> np.ndarray:
    return np.array([answer_match(text, accepted) for text, accepted in pairs], np.float64).reshape(-1, 2)
