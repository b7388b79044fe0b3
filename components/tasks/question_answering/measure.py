"""The answers to the questions of a split, how well they match, and every number and curve of the evaluation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from components.metrics import CONFIDENCE, mean_interval
from components.metrics.answer_match import answer_match
from components.tasks.definition import Measured
from components.tasks.question_answering import AnswerEvaluation
from components.tasks.scores import Scores
from components.text.answers import Answers, AnswerSettings, Spans, Windows, answers, best_spans, valid_spans
from components.text.outputs import IMPOSSIBLE, SPAN_ENDS, SPAN_SCORES, SPAN_STARTS
from components.text.questions import END, START, WINDOW, QuestionTables

# Question words of the report, with at least so many questions.
_WORDS, _FEWEST = 8, 20
_POINTS = 200


@dataclass(frozen=True)
class MatchedAnswers:
    """Answers to questions, in ascending order of their numbers.

    Attributes:
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


def windows_and_spans(
    kept: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray], settings: AnswerSettings
) -> tuple[Windows, Spans]:
    """The windows of samples, by the task's kept columns, and their valid spans."""
    windows = Windows(*(kept[name].astype(np.int64) for name in WINDOW))
    ends = outputs[SPAN_STARTS], outputs[SPAN_ENDS], outputs[SPAN_SCORES]
    return windows, valid_spans(windows, *ends, settings.max_answer_length)


def match_answers(
    windows: Windows, impossible: np.ndarray, spans: Spans, tables: QuestionTables, settings: AnswerSettings
) -> MatchedAnswers:
    """Answers questions."""
    found = answers(windows, impossible, spans)
    texts = [
        tables.text(question, begin, end) if begin >= 0 else ""
        for question, begin, end in zip(found.question, found.begin, found.end, strict=True)
    ]
    accepted = [tables.answers[question] for question in found.question]
    return MatchedAnswers(
        found,
        texts,
        settings.is_empty(found),
        _matches(zip(texts, accepted, strict=True)),
        _matches(("", each) for each in accepted),
    )


def _matches(pairs: Iterable[tuple[str, Sequence[str]]]) -> np.ndarray:
    return np.array([answer_match(text, accepted) for text, accepted in pairs], np.float64).reshape(-1, 2)


def f1_of(scores: Scores, parameters: AnswerEvaluation) -> np.ndarray:
    """F1 of each question, ``[questions]``."""
    windows, spans = windows_and_spans(scores.kept, scores.outputs, parameters)
    found = match_answers(windows, scores.outputs[IMPOSSIBLE], spans, QuestionTables(scores.tables), parameters)
    return found.matches[:, 1]


def measure(scores: Scores, parameters: AnswerEvaluation) -> Measured:
    """Computes metrics and curves; answers.json is the file of predictions that the official evaluation reads."""
    tables = QuestionTables(scores.tables)
    windows, spans = windows_and_spans(scores.kept, scores.outputs, parameters)
    matched = match_answers(windows, scores.outputs[IMPOSSIBLE], spans, tables, parameters)
    matches, numbers = matched.matches, matched.found.question
    answerable = np.array([bool(tables.answers[number]) for number in numbers])
    f1, exact = mean_interval(matches[:, 1]), mean_interval(matches[:, 0])
    metrics: dict[str, Any] = {
        **f1.metrics("test_f1"),
        **exact.metrics("test_exact_match"),
        "test_confidence": CONFIDENCE,
        "test_questions": len(numbers),
        "test_questions_unanswerable": int((~answerable).sum()),
        "test_windows": scores.rows,
        "test_f1_of_no_answers": float(matched.of_nothing[:, 1].mean()),
        "test_unanswered": float(matched.empty.mean()),
        "test_f1_answerable": _mean(matches[answerable, 1]),
        "test_exact_match_answerable": _mean(matches[answerable, 0]),
        "test_unanswerable_left_unanswered": _mean(matches[~answerable, 0]),
        "test_exact_match_of_n_best": _of_n_best(windows, spans, tables, matched, answerable, parameters.n_best),
        "test_n_best": parameters.n_best,
        "test_answers_too_long": _too_long(scores.targets, parameters.max_answer_length),
        "test_max_answer_length": parameters.max_answer_length,
        "by_question_word": _by_word([tables.questions[number] for number in numbers], matches),
    }
    curves: dict[str, dict[str, Any]] = {
        "answers": {
            name: "" if empty else text
            for name, text, empty in zip(
                _distinct([tables.ids[number] or str(number) for number in numbers]),
                matched.texts,
                matched.empty,
                strict=True,
            )
        }
    }
    if (curve := _by_threshold(matched)) is not None:
        best = int(np.argmax(curve["f1"]))
        metrics["test_null_threshold"] = parameters.null_threshold
        metrics["test_best_null_threshold"] = curve["threshold"][best]
        metrics["test_f1_at_best_null_threshold"] = curve["f1"][best]
        curves["null_threshold"] = curve
    return Measured(metrics, curves)


def _distinct(ids: Sequence[str]) -> list[str]:
    """The ids, the second question of an id with #2 behind it, and so on; none of them twice."""
    taken, times = set(ids), Counter[str]()
    distinct = []
    for name in ids:
        times[name] += 1
        unique = name
        while times[name] > 1 and (unique := f"{name}#{times[name]}") in taken:
            times[name] += 1
        taken.add(unique)
        distinct.append(unique)
    return distinct


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None


def _too_long(targets: Mapping[str, np.ndarray], longest: int) -> float | None:
    """Share of the marked answers that have too many tokens to be given; None without targets."""
    if START not in targets or END not in targets:
        return None
    marked = targets[START] > 0
    return _mean((targets[END] - targets[START] >= longest)[marked].astype(np.float64))


def _of_n_best(
    windows: Windows, spans: Spans, tables: QuestionTables, matched: MatchedAnswers, answerable: np.ndarray, most: int
) -> float | None:
    """Share of the answerable questions with an exact match among their best spans."""
    hit = np.zeros(len(answerable), bool)
    best = best_spans(windows, spans, most)
    at = np.searchsorted(matched.found.question, spans.question[best])
    for row, span in zip(at, best, strict=True):
        if answerable[row] and not hit[row]:
            number = int(spans.question[span])
            text = tables.text(number, int(spans.begin[span]), int(spans.end[span]))
            hit[row] = bool(answer_match(text, tables.answers[number])[0])
    return _mean(hit[answerable].astype(np.float64))


def _by_threshold(matched: MatchedAnswers) -> dict[str, list[float]] | None:
    """F1 and EM by the threshold above which questions are left unanswered; None if all have one log-odds of it."""
    odds = matched.found.impossible.astype(np.float64)
    if not len(odds) or odds.min() == odds.max():
        return None
    order = np.argsort(odds, kind="stable")
    gains = np.where(matched.found.begin[:, None] >= 0, matched.of_spans - matched.of_nothing, 0.0)[order]
    totals = matched.of_nothing.sum(0) + np.concatenate([np.zeros((1, 2)), np.cumsum(gains, 0)])
    # Answered are the questions whose odds are no higher: of equal odds all or none.
    ends = np.flatnonzero(np.append(np.diff(odds[order]) > 0, True)) + 1
    thresholds = np.concatenate([[odds.min() - 1.0], odds[order][ends - 1]])
    exact, f1 = (totals[np.concatenate([[0], ends])] / len(odds)).T
    best = int(np.argmax(f1))
    shown = np.unique(np.append(np.linspace(0, len(thresholds) - 1, _POINTS).astype(int), best))
    return {"threshold": thresholds[shown].tolist(), "f1": f1[shown].tolist(), "exact_match": exact[shown].tolist()}


def _by_word(questions: Sequence[str], matches: np.ndarray) -> list[dict[str, Any]]:
    """F1 and EM by the first word of the question, the most frequent ones."""
    words = np.array([next(iter(question.lower().split()), "") for question in questions])
    frequent = [word for word, count in Counter(words.tolist()).most_common(_WORDS) if count >= _FEWEST and word]
    return [
        {
            "word": word,
            "questions": int((words == word).sum()),
            "f1": float(matches[words == word, 1].mean()),
            "exact_match": float(matches[words == word, 0].mean()),
        }
        for word in frequent
    ]
