"""Small files of questions, and their samples."""

from __future__ import annotations

import gzip
import json
from functools import partial
from pathlib import Path
from typing import Any

from components.artifacts import adopt
from tests.preprocess import running

preprocess = partial(running.preprocess, dataset="squad")
error_of = partial(running.error_of, dataset="squad")
FACTS = {"red": "The lamp is {}.", "the attic": "It hangs in {}.", "Anna Bell": "{} repaired it in May."}
CONTEXT = " ".join(sentence.format(answer) for answer, sentence in FACTS.items())


def question(name: str, answer: str | None, context: str = CONTEXT, **changes: Any) -> dict[str, Any]:
    """A question; without an answer it is impossible."""
    answers = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
    body = {"id": name, "question": f"What is {name}?", "answers": answers, "is_impossible": answer is None}
    return {**body, **changes}


def context_of(title: str, context: str = CONTEXT) -> str:
    """The context of an article, which is no other one's."""
    return f"{context} {title}"


def article(title: str, *questions: dict[str, Any], context: str = CONTEXT) -> dict[str, Any]:
    return {"title": title, "paragraphs": [{"context": context_of(title, context), "qas": list(questions)}]}


def articles(count: int) -> list[dict[str, Any]]:
    """Each with a question about every fact and one without an answer."""
    return [
        article(f"t{n}", *(question(f"{n}-{m}", answer) for m, answer in enumerate([*FACTS, None])))
        for n in range(count)
    ]


def raw_folder(folder: Path, **files: Any) -> Path:
    """A raw artifact with a file of articles for each keyword: ``train`` is train.json, ``train_gz`` train.json.gz."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        if name == "vocab":
            (folder / "vocab.txt").write_text(content)
            continue
        content = content if isinstance(content, bytes) else json.dumps({"version": "v2.0", "data": content}).encode()
        path = folder / f"{name.removesuffix('_gz')}.json{'.gz' if name.endswith('_gz') else ''}"
        path.write_bytes(gzip.compress(content) if name.endswith("_gz") else content)
    if files:
        adopt(folder)
    return folder
