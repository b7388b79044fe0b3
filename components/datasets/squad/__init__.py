"""Questions about texts in the format of SQuAD 1.1 and 2.0, for models that mark the answer in the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.datasets.definition import DatasetDefinition, RawContract, RawKind
from components.datasets.squad.parameters import Generation, Sampling
from components.feature_spec import ListLength
from components.lazy import Lazy
from components.text.special import CHANNEL

QUESTIONS = RawKind(
    "questions",
    r"(?i)[^._].*\.json(\.gz)?",
    "train-v2.0.json, dev-v2.0.json or others like them, plain or with .gz",
    "lines of questions",
)
VOCABULARY = RawKind("vocabulary", r"(?i)vocab\.txt", "vocab.txt", "tokens of a vocabulary", required=False)
CONTRACT = RawContract((QUESTIONS, VOCABULARY))


def _lengths(parameters: Any) -> Mapping[str, ListLength]:
    return {CHANNEL: ListLength(parameters.max_seq_length, "max_seq_length")}


DATASET = DatasetDefinition(
    name="squad",
    summary="Questions about texts, whose answers are parts of the text or do not exist, as windows of the text.",
    raw=CONTRACT,
    generation=Generation,
    generate=Lazy("components.datasets.squad.synthetic:write_synthetic"),
    sampling=Sampling,
    preprocess=Lazy("components.datasets.squad.preprocess:preprocess"),
    lengths=_lengths,
    raw_rows=Lazy("components.datasets.squad.raw_rows:QuestionRows"),
)
