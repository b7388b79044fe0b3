"""Parameters of the data set text."""

from __future__ import annotations

from dataclasses import dataclass

from components.parameters import param
from components.text.special import VOCAB_SIZE


@dataclass(frozen=True)
class Generation:
    """Parameters of the synthetic corpus."""

    synthetic_documents: int = param(
        4000, "Documents of the synthetic corpus, of about 60 words each", unit="documents", at_least=2
    )


@dataclass(frozen=True)
class Sampling:
    """How texts become samples."""

    max_seq_length: int = param(
        128,
        "Tokens of a sample, with the special ones; longer lines are cut",
        unit="tokens",
        at_least=8,
        at_most=65_536,
    )
    vocab_size: int = VOCAB_SIZE
    test_share: float = param(
        0.05, "Share of the documents that makes the test split, at least one", at_least=0, at_most=0.9
    )
    one_segment_share: float = param(
        0.1, "Share of the samples that are one segment; the others are two consecutive ones", at_least=0, at_most=1
    )
    short_share: float = param(
        0.05, "Share of the samples that aim at a random length from 5 to max_seq_length", at_least=0, at_most=1
    )
    bytes_per_partition: int = param(
        4 << 20,
        "Text that one worker processes at a time; documents of four times as much are cut",
        unit="bytes",
        at_least=1,
    )
