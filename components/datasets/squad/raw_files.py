"""The raw files: train-v2.0.json and dev-v2.0.json, or one of them, and possibly the vocabulary beside them."""

from __future__ import annotations

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
_TESTED = ("dev", "test")


def find_questions(raw: Artifact) -> tuple[list[Path], list[Path]]:
    """The files to train on, whose name does not begin with dev or test, and those to test on, possibly none.

    Raises:
        KfrecError: there is no file, or one is there twice.
    """
    files = QUESTIONS.files(raw)
    tested = [path for path in files if path.name.lower().startswith(_TESTED)]
    trained = [path for path in files if path not in tested]
    return (trained, tested) if trained else (tested, [])  # a part of a dev file alone is tested on
