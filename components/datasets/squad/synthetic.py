"""Texts of plain facts, and questions whose answer the text states once, or does not state."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from components.progress import progress

FILE = "train-synthetic.json"
PARAGRAPHS, QUESTIONS = 10, 3
_FACTS = (3, 6)
THINGS = (
    "lamp",
    "clock",
    "chair",
    "table",
    "carpet",
    "mirror",
    "drum",
    "basket",
    "ladder",
    "kettle",
    "blanket",
    "candle",
)
OWNERS = ("Anna", "Bruno", "Clara", "David", "Elena", "Felix", "Greta", "Hugo", "Irene", "Jonas", "Karin", "Ludwig")
COLOURS = ("red", "green", "blue", "yellow", "black", "white", "brown", "grey", "purple", "orange")
PLACES = (
    "the cellar",
    "the kitchen",
    "the attic",
    "the hall",
    "the garden",
    "the old barn",
    "the library",
    "the garage",
)
ADVERBS = ("now", "still", "again", "always", "mostly", "since May")


class _Kind(NamedTuple):
    """A kind of facts.

    Attributes:
        sentence: of a fact.
        question: for its answer.
        values: possible answers.
    """

    sentence: str
    question: str
    values: tuple[str, ...]


KINDS = (
    _Kind("The {thing} of {owner} is {adverb} {value}.", "Which colour has the {thing} of {owner}?", COLOURS),
    _Kind("{owner} {adverb} keeps the {thing} in {value}.", "Where does {owner} keep the {thing}?", PLACES),
    _Kind("The {thing} of {owner} was {adverb} repaired by {value}.", "Who repaired the {thing} of {owner}?", OWNERS),
)


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Generates train-synthetic.json in ``folder``, as SQuAD 2.0; the same parameters give the same bytes.

    A text states facts: the colour, the place or the repairer of a thing of somebody. Most facts of a text are of other
    things or other people than the question, some are of the same, so that a question needs all of its words. A
    question without an answer asks for a fact that the text does not state. So the best possible F1 and EM are 1.
    """
    articles = []
    with progress("generating articles", parameters.synthetic_articles, "articles") as bar:
        for number in range(parameters.synthetic_articles):
            random = Random(f"{parameters.seed}\n{number}")
            paragraphs = [
                _paragraph(random, f"{number}-{index}", parameters.synthetic_unanswerable)
                for index in range(PARAGRAPHS)
            ]
            articles.append({"title": f"House {number}", "paragraphs": paragraphs})
            bar.advance(1)
    version = "v2.0" if parameters.synthetic_unanswerable else "1.1"
    # An article a line, for people who look into it.
    lines = ",\n".join(json.dumps(article) for article in articles)
    (folder / FILE).write_text(f'{{"version": "{version}", "data": [\n{lines}\n]}}\n')


def _paragraph(random: Random, name: str, unanswerable: float) -> dict[str, Any]:
    things, owners = random.sample(THINGS, 3), random.sample(OWNERS, 3)
    subjects = [(kind, thing, owner) for kind in range(len(KINDS)) for thing in things for owner in owners]
    random.shuffle(subjects)
    stated = random.randint(*_FACTS)
    context, facts = "", []
    for kind, thing, owner in subjects[:stated]:
        value = random.choice(KINDS[kind].values)
        sentence = KINDS[kind].sentence.format(thing=thing, owner=owner, adverb=random.choice(ADVERBS), value=value)
        context += " " if context else ""
        facts.append((kind, thing, owner, value, len(context) + sentence.rindex(value)))
        context += sentence
    questions = []
    for number in range(QUESTIONS):
        if random.random() < unanswerable:
            kind, thing, owner = subjects[stated + number]
            answers = []
        else:
            kind, thing, owner, value, start = facts[number]
            answers = [{"text": value, "answer_start": start}]
        questions.append(
            {
                "id": f"{name}-{number}",
                "question": KINDS[kind].question.format(thing=thing, owner=owner),
                "is_impossible": not answers,
                "answers": answers,
            }
        )
    return {"context": context, "qas": questions}
