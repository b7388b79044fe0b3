"""A corpus of texts, for pre-training: one sentence a line, and a blank line between documents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.datasets.definition import DatasetDefinition, RawContract, RawKind
from components.datasets.text.parameters import Generation, Sampling
from components.feature_spec import Channel, ListLength
from components.lazy import Lazy
from components.text.special import CHANNEL

TEXTS = RawKind(
    "texts",
    r"(?i)(?!(readme|license|vocab\.txt))[^._].*\.(txt|text)(-\d+-of-\d+)?(\.gz)?",
    "*.txt or *.text, plain or with .gz",
    "lines",
)
VOCABULARY = RawKind("vocabulary", r"(?i)vocab\.txt", "vocab.txt", "tokens of a vocabulary", required=False)
CONTRACT = RawContract((TEXTS, VOCABULARY))


def _lengths(parameters: Any) -> Mapping[str, ListLength]:
    return {CHANNEL: ListLength(parameters.max_seq_length, "max_seq_length")}


DATASET = DatasetDefinition(
    name="text",
    summary="Texts of one sentence a line, as pairs of segments in WordPiece tokens.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.text.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.text.preprocess:preprocess"),
    lengths=_lengths,
    task="replaced_token",
    lacks=lambda source, parameters: (Channel.GROUP,),
    no_raw_rows="its samples are windows of a corpus",
)
