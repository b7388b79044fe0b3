"""The built-in questions have one answer each, or none, and need all of their words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.datasets.facts import KINDS
from components.datasets.squad.synthetic import FILE, write_synthetic
from components.parameters import build
from components.steps.catalog import STEPS


def generated(folder: Path, **parameters: Any) -> str:
    folder.mkdir()
    chosen = {"dataset": "squad", "source": "synthetic", "synthetic_articles": 12, **parameters}
    write_synthetic(build(STEPS["download"].parameters(chosen), chosen), folder)
    return (folder / FILE).read_text()


def questions(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for article in json.loads(text)["data"]:
        for paragraph in article["paragraphs"]:
            for qa in paragraph["qas"]:
                yield paragraph["context"], qa


def stated(context: str, question: str) -> list[str]:
    """The answers that a reader finds: what the text says of the same thing of the same person."""
    found = []
    for kind in KINDS:
        form = re.escape(kind.question).replace(r"\{thing\}", "(?P<thing>.+)").replace(r"\{owner\}", "(?P<owner>.+)")
        if asked := re.fullmatch(form, question):
            values = "|".join(kind.values)
            sentence = (
                re.escape(kind.sentence).replace(r"\{adverb\}", "[^.]+?").replace(r"\{value\}", f"(?P<value>{values})")
            )
            for name in ("thing", "owner"):
                sentence = sentence.replace(rf"\{{{name}\}}", asked[name])
            found += [match["value"] for match in re.finditer(rf"(?:^|(?<= )){sentence}", context)]
    return found


def test_a_question_has_the_answer_that_the_text_states(tmp_path: Path) -> None:
    texts = list(questions(generated(tmp_path / "a")))
    assert len(texts) == 12 * 10 * 3
    for context, qa in texts:
        answers = qa["answers"]
        assert stated(context, qa["question"]) == [answer["text"] for answer in answers], (context, qa)
        assert qa["is_impossible"] == (not answers)
        for answer in answers:
            start = answer["answer_start"]
            assert context[start : start + len(answer["text"])] == answer["text"]
    unanswerable = sum(not qa["answers"] for _, qa in texts)
    assert 70 < unanswerable < 150


@pytest.mark.parametrize(("things", "most"), [(1, 0.0), (3, 1.0)])
def test_only_texts_of_several_things_hold_other_values_of_a_kind(things: int, most: float, tmp_path: Path) -> None:
    found = [
        sum(f" {value}" in context for value in kind.values)
        for context, qa in questions(generated(tmp_path / "a", synthetic_things=things))
        for kind in KINDS
        if qa["answers"] and qa["answers"][0]["text"] in kind.values
    ]
    others = sum(count > 1 for count in found) / len(found)
    assert others <= most and (others > 0.2) == (things > 1)


def test_the_same_parameters_give_the_same_bytes(tmp_path: Path) -> None:
    first, again, other = (generated(tmp_path / name, seed=seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    assert first == again != other
