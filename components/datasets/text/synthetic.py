"""Texts with planted structure: what a word must be depends on words that do not stand beside it."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from components.datasets.facts import drawn_subjects
from components.progress import progress

CORPUS = "corpus.txt"
_SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "la",
    "me",
    "ni",
    "po",
    "ru",
    "sa",
    "te",
    "vi",
    "wo",
    "zu",
    "ka",
    "lo",
    "mi",
)
TOPICS, NOUNS, VERBS, ADJECTIVES, ADVERBS = 8, 24, 24, 40, 40
_SENTENCES = (4, 9)
# One document in so many has plain facts.
_FACTS = 4


def write_synthetic(parameters: Any, folder: Path) -> None:
    """Generates corpus.txt in ``folder``; the same parameters give the same bytes.

    A document has one of eight topics, each with nouns and verbs of its own. A sentence is subject, verb and object,
    with an adjective before each noun and possibly an adverb before the verb, which are the same for all topics. The
    verb is the one of its subject, and the object is the noun that follows the subject's in the order of the topic. So
    verb and object are certain given the subject, and nothing beside them tells them. Every fourth document asks
    and states plain facts, in the words of the synthetic questions that a fine-tuning has.
    """
    language = Language(parameters.seed)
    documents = parameters.synthetic_documents
    with (folder / CORPUS).open("w") as file, progress("generating documents", documents, "documents") as bar:
        for number in range(documents):
            random = Random(f"{parameters.seed}\n{number}")
            sentences = _facts(random) if number % _FACTS == 0 else language.document(random)
            file.write("".join(f"{sentence}\n" for sentence in sentences) + "\n")
            bar.advance(1)


def _facts(random: Random) -> list[str]:
    stated, _ = drawn_subjects(random, 1)
    answered = ((subject, random.choice(subject.kind.values)) for subject in stated)
    return [line for subject, value in answered for line in (subject.question, subject.sentence(value, random))]


class Language:
    """The words of the language."""

    def __init__(self, seed: int) -> None:
        random = Random(f"{seed}\nwords")
        count = TOPICS * (NOUNS + VERBS) + ADJECTIVES + ADVERBS
        drawn: dict[str, None] = {}
        while len(drawn) < count:
            drawn["".join(random.choice(_SYLLABLES) for _ in range(random.randint(2, 3)))] = None
        words = iter(drawn)
        self.nouns = [[next(words) for _ in range(NOUNS)] for _ in range(TOPICS)]
        self.verbs = [[next(words) for _ in range(VERBS)] for _ in range(TOPICS)]
        self.adjectives = [next(words) for _ in range(ADJECTIVES)]
        self.adverbs = [next(words) for _ in range(ADVERBS)]

    def document(self, random: Random) -> list[str]:
        topic = random.randrange(TOPICS)
        return [self.sentence(topic, random) for _ in range(random.randint(*_SENTENCES))]

    def sentence(self, topic: int, random: Random) -> str:
        noun = random.randrange(NOUNS)
        subject, verb = self.nouns[topic][noun], self.verbs[topic][noun]
        target = self.nouns[topic][(noun + 1) % NOUNS]
        adverb = [random.choice(self.adverbs)] if random.random() < 0.5 else []
        first, second = (random.choice(self.adjectives) for _ in range(2))
        return " ".join(["the", first, subject, *adverb, verb, "the", second, target, "."])
