"""The raw files: texts of any name, and possibly the vocabulary beside them."""

from __future__ import annotations

from components.datasets.definition import RawContract, RawKind

TEXTS = RawKind(
    "texts",
    r"(?i)(?!(readme|license|vocab\.txt))[^._].*\.(txt|text)(-\d+-of-\d+)?(\.gz)?",
    "*.txt or *.text, plain or with .gz",
    "lines",
)
VOCABULARY = RawKind("vocabulary", r"(?i)vocab\.txt", "vocab.txt", "tokens of a vocabulary", required=False)
CONTRACT = RawContract((TEXTS, VOCABULARY))
