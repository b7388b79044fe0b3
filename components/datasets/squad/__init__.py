"""Questions about texts in the format of SQuAD 1.1 and 2.0, for models that mark the answer in the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.datasets.definition import DatasetDefinition, RawContract, RawKind
from components.errors import KfrecError
from components.feature_spec import ListLength
from components.lazy import Lazy
from components.parameters import param
from components.text.special import CHANNEL, VOCAB_SIZE


@dataclass(frozen=True)
class Generation:
    """Parameters of the synthetic questions."""

    synthetic_articles: int = param(
        100,
        "Articles of the synthetic texts, each with ten texts and three questions a text",
        unit="articles",
        at_least=3,
    )
    synthetic_things: int = param(
        1,
        "Things that a synthetic text is about; of one, the kind of question tells the answer, and of several ones a "
        "question needs all of its words, which takes far more training",
        unit="things",
        at_least=1,
        at_most=12,
    )


@dataclass(frozen=True)
class Sampling:
    """How questions become samples."""

    max_seq_length: int = param(
        384, "Tokens of a sample: question, window of the text, and three special ones", unit="tokens", at_least=8,
        at_most=65_536,
    )  # fmt: skip
    doc_stride: int = param(
        128, "Tokens from the beginning of a window to that of the next one", unit="tokens", at_least=1
    )
    max_query_length: int = param(64, "Tokens of a question; the rest is cut off", unit="tokens", at_least=1)
    vocab_size: int = VOCAB_SIZE
    test_share: float = param(
        0.2, "Share of the articles that makes the test split, where no dev file is", at_least=0, at_most=0.9
    )
    judging_share: float = param(
        0.05,
        "Share of the articles that judges the epochs of a training, the split for validation",
        at_least=0,
        at_most=0.5,
    )
    questions_per_partition: int = param(
        4096, "Questions that one worker processes at a time", unit="questions", at_least=1
    )

    def check(self) -> None:
        """Requires room for the text beside the question."""
        if self.max_query_length + 3 >= self.max_seq_length:
            raise KfrecError(
                f"parameter max_query_length={self.max_query_length} leaves no room for the text in max_seq_length="
                f"{self.max_seq_length}; lower it, or raise max_seq_length"
            )


QUESTIONS = RawKind(
    "questions",
    r"(?i)[^._].*\.json(\.gz)?",
    "train-v2.0.json, dev-v2.0.json or others like them, plain or with .gz",
    "lines of questions",
)
VOCABULARY = RawKind("vocabulary", r"(?i)vocab\.txt", "vocab.txt", "tokens of a vocabulary", required=False)
CONTRACT = RawContract((QUESTIONS, VOCABULARY))


DATASET = DatasetDefinition(
    name="squad",
    summary="Questions about texts, whose answers are parts of the text or do not exist, as windows of the text.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.squad.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.squad.preprocess:preprocess"),
    lengths=lambda parameters: {CHANNEL: ListLength(parameters.max_seq_length, "max_seq_length")},
    raw_rows=Lazy("components.datasets.squad.raw_rows:QuestionRows"),
)
