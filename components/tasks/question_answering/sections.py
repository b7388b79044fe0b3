"""The report's sections for a model that answers questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.report import Axis, Card, Figure, Line, Section, Story, bar_chart, line_chart, spanning
from components.tasks.definition import Measured
from components.tasks.report import interval_card, true_figure

_LARGEST_ODDS = 100.0


def story(measured: Measured) -> Story:
    """The report of a model that answers questions."""
    metrics = measured.metrics
    lead = (
        "F1 compares the words of an answer with those of the accepted ones, EM asks for all of them; articles, case "
        f"and punctuation do not count. With {metrics['test_questions']:,} questions, "
        f"{true_figure(metrics, 'test_f1', '{:.4f}'.format, 'F1')}."
    )
    if metrics["test_questions_unanswerable"]:
        lead += f" Leaving all questions unanswered gives {metrics['test_f1_of_no_answers']:.4f}."
    figures = [*_by_word(metrics["by_question_word"]), *_by_threshold(measured.curves.get("null_threshold"), metrics)]
    section = Section("Answers", "Which questions are answered well, and when none should be given.", figures)
    return Story(f"Test F1 {metrics['test_f1']:.4f}", lead, _cards(metrics), [section], _counts(metrics))


def _cards(metrics: Mapping[str, Any]) -> list[Card]:
    cards = [
        interval_card("F1", metrics, "test_f1", main=True),
        interval_card("EM", metrics, "test_exact_match"),
        Card(
            f"EM of the best {metrics['test_n_best']}",
            metrics["test_exact_match_of_n_best"],
            "answerable questions with the right span among them",
        ),
    ]
    if metrics["test_questions_unanswerable"]:
        cards += [
            Card("F1, answerable", metrics["test_f1_answerable"], "questions with an answer"),
            Card("Left unanswered", metrics["test_unanswerable_left_unanswered"], "of those without an answer"),
        ]
    return cards


def _counts(metrics: Mapping[str, Any]) -> dict[str, str]:
    return {
        "test questions": f"{metrics['test_questions']:,}",
        "test questions without an answer": f"{metrics['test_questions_unanswerable']:,}",
        "windows of their texts": f"{metrics['test_windows']:,}",
    }


def _by_word(words: Sequence[Mapping[str, Any]]) -> list[Figure]:
    if not words:
        return []
    names, values = [each["word"] for each in words], [each["f1"] for each in words]
    notes = [f"{each['questions']:,}" for each in words]
    chart = bar_chart(names, values, notes, "first word of the question", Axis("F1", 0, max(*values, 0.1) * 1.12))
    return [Figure("F1 by question word", chart, "Below each word stands the number of its questions.")]


def _by_threshold(curve: Mapping[str, Any] | None, metrics: Mapping[str, Any]) -> list[Figure]:
    if curve is None:
        return []
    rows = [
        row for row in zip(curve["threshold"], curve["f1"], curve["exact_match"], strict=True)
        if abs(row[0]) <= _LARGEST_ODDS
    ]  # fmt: skip
    if len(rows) < 2:
        return []
    x, f1, exact = (list(values) for values in zip(*rows, strict=True))
    chart = line_chart(
        [Line("F1", x, f1), Line("EM", x, exact, "two")], spanning("threshold", x), spanning("score", [*f1, *exact])
    )
    note = (
        f"Questions with higher log-odds of having no answer are left unanswered. At "
        f"{metrics['test_null_threshold']:g} F1 is {metrics['test_f1']:.4f}; the best threshold for these questions is "
        f"{metrics['test_best_null_threshold']:.3g}, with {metrics['test_f1_at_best_null_threshold']:.4f}."
    )
    return [Figure("Scores by threshold", chart, note)]
