"""Segments as the sequences that models read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from components.text.special import SpecialTokens


class Sequences(NamedTuple):
    """Sequences of tokens.

    Attributes:
        input_ids: ``[CLS] first [SEP]``, and ``second [SEP]`` where there is a second segment, padded at the end; int32
            ``[n, length]``.
        segment_ids: 1 for the second segment and its [SEP], else 0; int8 ``[n, length]``.
    """

    input_ids: np.ndarray
    segment_ids: np.ndarray


def sequences(pairs: Sequence[tuple[list[int], list[int]]], length: int, special: SpecialTokens) -> Sequences:
    """Joins pairs of segments.

    Args:
        pairs: tokens of the first segment, and of the second one, possibly none; they must fit.
        length: of a sequence.
        special: the special tokens.
    """
    ids = np.full((len(pairs), length), special.pad, np.int32)
    segments = np.zeros((len(pairs), length), np.int8)
    for row, (first, second) in enumerate(pairs):
        joined = [special.cls, *first, special.sep]
        if second:
            joined += [*second, special.sep]
            segments[row, len(first) + 2 : len(joined)] = 1
        ids[row, : len(joined)] = joined
    return Sequences(ids, segments)
