"""Texts of plain facts, and questions whose answer the text states once, or does not state."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from components.datasets.facts import drawn_subjects
from components.progress import progress

FILE = "train-synthetic.json"
PARAGRAPHS, QUESTIONS = 10, 3
# Share of the questions that have no answer.
UNANSWERABLE = 0.3


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Generates train-synthetic.json in ``folder``, as SQuAD 2.0; the same parameters give the same bytes.

    A text states facts of ``synthetic_things`` things. Of one thing, each kind of facts is stated at most once, so that
    the kind of the question tells the answer; of several ones, a question needs all of its words. A question without an
    answer asks for a fact that the text does not state. So the best possible F1 and EM are 1.
    """
    articles = []
    with progress("generating articles", parameters.synthetic_articles, "articles") as bar:
        for number in range(parameters.synthetic_articles):
            random = Random(f"{parameters.seed}\n{number}")
            paragraphs = [_paragraph(random, f"{number}-{index}", parameters) for index in range(PARAGRAPHS)]
            articles.append({"title": f"House {number}", "paragraphs": paragraphs})
            bar.advance(1)
    # An article a line, for people who look into it.
    lines = ",\n".join(json.dumps(article) for article in articles)
    (folder / FILE).write_text(f'{{"version": "v2.0", "data": [\n{lines}\n]}}\n')


def _paragraph(random: Random, name: str, parameters: Any) -> dict[str, Any]:
    stated, others = drawn_subjects(random, parameters.synthetic_things)
    context, facts = "", []
    for subject in stated:
        value = random.choice(subject.kind.values)
        sentence = subject.sentence(value, random)
        context += " " if context else ""
        facts.append((subject, [{"text": value, "answer_start": len(context) + sentence.rindex(value)}]))
        context += sentence
    questions = []
    for number in range(QUESTIONS):
        subject, answers = facts[number]
        if random.random() < UNANSWERABLE:
            subject, answers = others[number], []
        questions.append(
            {
                "id": f"{name}-{number}",
                "question": subject.question,
                "is_impossible": not answers,
                "answers": answers,
            }
        )
    return {"context": context, "qas": questions}
