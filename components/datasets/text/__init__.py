"""A corpus of texts, for pre-training: one sentence a line, and a blank line between documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.datasets.definition import DatasetDefinition, RawContract, RawKind
from components.feature_spec import Channel, ListLength
from components.lazy import Lazy
from components.parameters import param
from components.text.special import CHANNEL, VOCAB_SIZE


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


TEXTS = RawKind(
    "texts",
    r"(?i)(?!(readme|license|vocab\.txt))[^._].*\.(txt|text)(-\d+-of-\d+)?(\.gz)?",
    "*.txt or *.text, plain or with .gz",
    "lines",
)
VOCABULARY = RawKind("vocabulary", r"(?i)vocab\.txt", "vocab.txt", "tokens of a vocabulary", required=False)
CONTRACT = RawContract((TEXTS, VOCABULARY))


DATASET = DatasetDefinition(
    name="text",
    summary="Texts of one sentence a line, as pairs of segments in WordPiece tokens.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.text.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.text.preprocess:preprocess"),
    lengths=lambda parameters: {CHANNEL: ListLength(parameters.max_seq_length, "max_seq_length")},
    task="replaced_token",
    lacks=lambda source, parameters: (Channel.GROUP,),
    no_raw_rows="its samples are windows of a corpus",
)
