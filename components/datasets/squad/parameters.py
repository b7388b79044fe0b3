"""Parameters of the data set squad."""

from __future__ import annotations

from dataclasses import dataclass

from components.errors import KfrecError
from components.parameters import param
from components.text.special import VOCAB_SIZE


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
