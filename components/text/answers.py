"""From scored spans of windows to the answers of questions.

A long context is read in overlapping windows, and a model scores spans in each. The answer of a question is the best
span of all its windows, if the model does not call the question unanswerable.

Source: Devlin et al., 2019, section 4.2, and Clark et al., 2020, as their released programs choose answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.parameters import build, param, parameters_of

# Score of a question for which no span is valid.
NOTHING = -1e30


@dataclass(frozen=True)
class Windows:
    """Where windows are in their contexts; all arrays are int64 ``[n]``.

    Attributes:
        first_token: index in the context of the window's first token.
        begin: position of the first in the window.
    """

    question: np.ndarray
    first_token: np.ndarray
    tokens: np.ndarray
    begin: np.ndarray


@dataclass(frozen=True)
class Spans:
    """Spans of windows; all arrays are ``[m]``.

    Attributes:
        window: the first token of the window, which tells the windows of a question apart.
        begin: index in the context of the span's first token.
    """

    question: np.ndarray
    window: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    score: np.ndarray


@dataclass(frozen=True)
class Answers:
    """The best spans of questions; all arrays are ``[questions]``.

    Attributes:
        question: numbers, ascending.
        begin: index in the context of the answer's first token; -1 if no span is valid.
        score: of the span; NOTHING without one.
        impossible: the lowest logit, over the windows, that there is no answer.
    """

    question: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    score: np.ndarray
    impossible: np.ndarray


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


def valid_spans(windows: Windows, starts: np.ndarray, ends: np.ndarray, scores: np.ndarray, longest: int) -> Spans:
    """The spans that lie in the context, end at or behind their start, and are not too long.

    Args:
        windows: ``[n]``.
        starts: output SPAN_STARTS ``[n, spans]``; see ``components.text.outputs``.
    """
    begin, last = windows.begin[:, None], (windows.begin + windows.tokens)[:, None]
    valid = (starts >= begin) & (ends < last) & (ends >= starts) & (ends - starts < longest) & (scores > NOTHING)
    rows, columns = np.nonzero(valid)
    shift = windows.first_token[rows] - windows.begin[rows]
    return Spans(
        windows.question[rows],
        windows.first_token[rows],
        starts[rows, columns] + shift,
        ends[rows, columns] + shift,
        scores[rows, columns],
    )


def best_spans(windows: Windows, spans: Spans, most: int = 1) -> np.ndarray:
    """The best spans of each question, by score; of equal ones, the first in the given order.

    A span counts only in the window where its first token has most context, which is the smaller number of tokens on
    its left and right; of equal windows, the longer one counts, then the first.

    Args:
        windows: all windows of the questions, in any order.

    Returns:
        int64, indices of ``spans``: the questions in ascending order, the best span of each first.
    """
    counted = np.flatnonzero(_has_most_context(windows, spans))
    order = counted[np.lexsort((counted, -spans.score[counted].astype(np.float64), spans.question[counted]))]
    _, first, inverse = np.unique(spans.question[order], return_index=True, return_inverse=True)
    return order[np.arange(len(order)) - first[inverse] < most]


def answers(windows: Windows, impossible: np.ndarray, spans: Spans) -> Answers:
    """The answers of all questions that have a window.

    Args:
        windows: all windows of the questions, ``[n]``.
        impossible: output IMPOSSIBLE ``[n]``.
        spans: of ``valid_spans``.
    """
    questions, inverse = np.unique(windows.question, return_inverse=True)
    lowest = np.full(len(questions), np.inf, np.float32)
    np.minimum.at(lowest, inverse, impossible.astype(np.float32))
    best = best_spans(windows, spans)
    at = np.searchsorted(questions, spans.question[best])
    begin, end = (np.full(len(questions), -1, np.int64) for _ in range(2))
    score = np.full(len(questions), NOTHING, np.float32)
    begin[at], end[at], score[at] = spans.begin[best], spans.end[best], spans.score[best]
    return Answers(questions, begin, end, score, lowest)


def _has_most_context(windows: Windows, spans: Spans) -> np.ndarray:
    """Whether the first token of each span has no more context in another window of the question."""
    order = np.lexsort((windows.first_token, windows.question))
    question, first, tokens = windows.question[order], windows.first_token[order], windows.tokens[order]
    keys = _key(question, first)
    own = np.searchsorted(keys, _key(spans.question, spans.window))
    # Of the hundreds of windows of a long context, only those that begin near a token can hold it.
    reach = int(tokens.max(initial=0)) - 1
    earliest = np.searchsorted(keys, _key(spans.question, np.maximum(spans.begin - reach, 0)))
    latest = np.searchsorted(keys, _key(spans.question, spans.begin), "right") - 1
    most = int(np.maximum(own - earliest, latest - own).max(initial=0))

    def context(at: np.ndarray) -> np.ndarray:
        """Hundred times the context, and the length; -1 outside of the window."""
        left, right = spans.begin - first[at], first[at] + tokens[at] - 1 - spans.begin
        inside = (left >= 0) & (right >= 0) & (question[at] == spans.question)
        return np.where(inside, 100 * np.minimum(left, right) + tokens[at], -1)

    mine = context(own)
    kept = np.ones(len(own), bool)
    for shift in range(1, most + 1):
        before, after = own - shift, own + shift
        kept &= (before < 0) | (context(np.maximum(before, 0)) < mine)
        kept &= (after >= len(question)) | (context(np.minimum(after, len(question) - 1)) <= mine)
    return kept


def _key(question: np.ndarray, first_token: np.ndarray) -> np.ndarray:
    return question.astype(np.int64) << 32 | first_token.astype(np.int64)
