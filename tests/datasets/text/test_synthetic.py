"""The built-in corpus has something to learn that neighbouring words do not tell."""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

from components.datasets.facts import KINDS, OWNERS, THINGS
from components.datasets.text.synthetic import CORPUS, write_synthetic
from components.parameters import build
from components.steps.catalog import STEPS


def corpus(folder: Path, **parameters: int) -> list[list[list[str]]]:
    """Words of the sentences of the documents."""
    folder.mkdir()
    chosen = {"dataset": "text", "source": "synthetic", **parameters}
    write_synthetic(build(STEPS["download"].parameters(chosen), chosen), folder)
    documents = (folder / CORPUS).read_text().strip().split("\n\n")
    return [[line.split() for line in document.splitlines()] for document in documents]


def subject_verb_object(words: list[str]) -> tuple[str, str, str]:
    """Of ``the A subject [adverb] verb the A object .``"""
    second = words.index("the", 1)
    return words[2], words[second - 1], words[second + 2]


def of_topics(documents: list[list[list[str]]]) -> list[list[list[str]]]:
    """Without the documents of facts, every fourth."""
    return [document for number, document in enumerate(documents) if number % 4]


def test_verb_and_object_follow_from_the_subject_alone(tmp_path: Path) -> None:
    documents = of_topics(corpus(tmp_path / "a", synthetic_documents=500))
    sentences = [sentence for document in documents for sentence in document]
    seen = defaultdict(set)
    for sentence in sentences:
        subject, *rest = subject_verb_object(sentence)
        seen[subject].add(tuple(rest))
    assert len(seen) > 100 and all(len(rests) == 1 for rests in seen.values())
    # The words before the object say nothing about it.
    before = Counter((sentence[-3], sentence[-2]) for sentence in sentences)
    assert before.most_common(1)[0][1] < 0.01 * len(sentences)


def test_a_document_has_one_topic(tmp_path: Path) -> None:
    documents = of_topics(corpus(tmp_path / "a", synthetic_documents=264))
    topics = defaultdict(set)
    for number, document in enumerate(documents):
        for sentence in document:
            topics[subject_verb_object(sentence)[0]].add(number)
    # Subjects of one document only occur in documents of its topic: an eighth of them.
    assert max(len(numbers) for numbers in topics.values()) < 60
    assert len(documents) == 198


def test_the_words_of_the_built_in_questions_are_among_those_of_the_texts(tmp_path: Path) -> None:
    words = {word.strip(".?") for document in corpus(tmp_path / "a") for sentence in document for word in sentence}
    used = (text for kind in KINDS for text in (kind.question, *kind.values))
    asked = {word.strip("?") for text in used for word in text.split() if not word.startswith("{")}
    assert asked | set(THINGS) | set(OWNERS) <= words


def test_the_same_parameters_give_the_same_bytes(tmp_path: Path) -> None:
    first, again, other = (
        corpus(tmp_path / name, synthetic_documents=20, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))
    )
    assert first == again != other
