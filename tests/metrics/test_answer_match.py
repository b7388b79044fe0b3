"""Exact match and F1 of answers, after the rules of the official evaluation of SQuAD 2.0."""

from __future__ import annotations

import pytest

from components.metrics.answer_match import answer_match, normal_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The  Bronx, N.Y.", ["bronx", "ny"]),
        ("an A the theme", ["theme"]),
        ("the-end", ["theend"]),
        ("A.", []),
        ("50%", ["50"]),
        ("co‑op — dash", ["co‑op", "—", "dash"]),
        ("l'a the’s", ["la", "’s"]),
        ("", []),
    ],
)
def test_case_articles_punctuation_and_spaces_do_not_count(text: str, words: list[str]) -> None:
    assert normal_words(text) == words


@pytest.mark.parametrize(
    ("answer", "accepted", "exact", "f1"),
    [
        ("red", ["Red."], 1, 1),
        ("the red lamp", ["red"], 0, 2 / 3),
        ("red red lamp", ["red lamp lamp"], 0, 2 * (2 / 3) * (2 / 3) / (4 / 3)),
        ("blue", ["red", "a blue lamp"], 0, 2 / 3),
        ("blue", ["red", "the blue"], 1, 1),
        ("green", ["red"], 0, 0),
        ("", ["red"], 0, 0),
        ("", [], 1, 1),
        ("red", [], 0, 0),
        ("the", [], 1, 1),
        ("the", ["a"], 1, 1),
        ("red", ["the", "red lamp"], 0, 2 / 3),
    ],
)
def test_the_best_accepted_answer_counts(answer: str, accepted: list[str], exact: float, f1: float) -> None:
    assert answer_match(answer, accepted) == (exact, pytest.approx(f1))
