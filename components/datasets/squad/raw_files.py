"""The raw files: train-v2.0.json and dev-v2.0.json, or one of them, and possibly the vocabulary beside them."""

from __future__ import annotations

import re
from pathlib import Path

from components.artifacts import Artifact
from components.datasets.definition import RawContract, RawKind

QUESTIONS = RawKind(
    "questions",
    r"(?i)[^._].*\.json(\.gz)?",
    "train-v2.0.json, dev-v2.0.json or others like them, plain or with .gz",
    "lines of questions",
)
VOCABULARY = RawKind("vocabulary", r"(?i)vocab\.txt", "vocab.txt", "tokens of a vocabulary", required=False)
CONTRACT = RawContract((QUESTIONS, VOCABULARY))
# dev-v2.0.json and test.json, but also quoref-dev-v0.1.json, GermanQuAD_test.json and valid.json.
_TESTED = re.compile(r"(?i)(dev|test)|(.*[^a-z0-9])?(valid|validation|dev|test)(?![a-z])")


def find_questions(raw: Artifact) -> tuple[list[Path], list[Path]]:
    """The files to train on, and those to test on by their names, possibly none.

    Raises:
        KfrecError: there is no file, or one is there twice.
    """
    files = QUESTIONS.files(raw)
    tested = [path for path in files if _TESTED.match(path.name)]
    trained = [path for path in files if path not in tested]
    return (trained, tested) if trained else (tested, [])  # a part of a dev file alone is tested on
