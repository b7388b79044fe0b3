"""Small sizes of ELECTRA and texts that fit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from components.feature_spec import Feature, FeatureSpec
from components.models.electra import ElectraParameters
from components.text.special import SpecialTokens

VOCABULARY, LENGTH = 99, 40
SPECIAL = SpecialTokens(pad=0, unknown=1, cls=2, sep=3, mask=4)
SIZES: dict[str, Any] = dict(
    encoder_layers=2,
    encoder_width=16,
    attention_heads=4,
    feed_forward_width=32,
    token_width=8,
    generator_share=0.5,
    positions=LENGTH + 5,
)

MakeTexts = Callable[..., dict[str, np.ndarray]]


@pytest.fixture
def text_spec() -> FeatureSpec:
    features = {
        "input_ids": Feature("input_ids", "int32", VOCABULARY - 1, LENGTH),
        "segment_ids": Feature("segment_ids", "int8", 1, LENGTH),
    }
    return FeatureSpec(features, {}, {"tokens": tuple(features)}, {"tokens": SPECIAL.to_dict()})


@pytest.fixture
def sizes() -> Callable[..., ElectraParameters]:
    return lambda **changed: ElectraParameters(**{**SIZES, **changed})


@pytest.fixture
def make_texts() -> MakeTexts:
    """Two segments a text, the second of another length each; ``lengths`` are tokens of whole texts."""

    def make(rows: int, lengths: list[int] | None = None, seed: int = 0) -> dict[str, np.ndarray]:
        random = np.random.default_rng(seed)
        ends = np.array(lengths if lengths is not None else random.integers(5, LENGTH + 1, rows))[:, np.newaxis]
        tokens, places = random.integers(5, VOCABULARY, (rows, LENGTH)), np.arange(LENGTH)
        middle = ends // 2
        tokens[:, 0] = SPECIAL.cls
        tokens[(places == middle) | (places == ends - 1)] = SPECIAL.sep
        tokens[places >= ends] = SPECIAL.pad
        segments = (places > middle) & (places < ends)
        return {"input_ids": tokens.astype(np.int32), "segment_ids": segments.astype(np.int32)}

    return make
