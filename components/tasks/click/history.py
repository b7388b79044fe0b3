"""What a candidate has in common with the history, as a handful of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from components.feature_spec import Channel, FeatureSpec

# Mean number of items that a count looks back on; infinity weighs all alike.
SPANS = (1.0, 3.0, 10.0, 30.0, float("inf"))
_MOST_PAIRS = 3
# Samples whose histories are compared at a time, so that temporary arrays stay small.
_ROWS = 8192


@dataclass(frozen=True)
class HistoryPair:
    """One property of an item: in the candidate, and in the history.

    Attributes:
        target: feature of the candidate.
        history: feature of the history, oldest item first, left-padded with 0.
        unknown: the id of all unknown values, which says nothing about two items having it; 0 without a vocabulary.
    """

    target: str
    history: str
    unknown: int


def history_pairs(spec: FeatureSpec) -> tuple[HistoryPair, ...]:
    """The first properties that candidate and history share, the item's id first; empty without a history."""
    pairs = []
    for target, history in zip(spec.channels.get(Channel.TARGET, ()), spec.channels.get(Channel.POSITIVE, ()),
                               strict=False):  # fmt: skip
        one, many = spec.features[target], spec.features[history]
        if one.cardinality is None or many.cardinality != one.cardinality or one.length or not many.length:
            return ()
        vocabulary = spec.vocabulary_of(target)
        pairs.append(HistoryPair(target, history, vocabulary.unknown if vocabulary else 0))
    return tuple(pairs[:_MOST_PAIRS])


def recency_counts(samples: Mapping[str, np.ndarray], pair: HistoryPair) -> np.ndarray:
    """How often the history has the candidate's value, recent items counting more.

    With ``a`` items after it, an item of the history counts ``(1 - 1/s)^a``, for each span ``s``: the sum of these
    weights is ``s``, so the count looks back on about ``s`` items. Padding and unknown values never match.

    Returns:
        float32 ``[n, spans]``.
    """
    candidates, histories = samples[pair.target], samples[pair.history]
    ago = np.arange(histories.shape[1] - 1, -1, -1)
    weights = np.stack([(1 - 1 / span) ** ago for span in SPANS], axis=1).astype(np.float32)
    counts = np.empty((len(candidates), len(SPANS)), np.float32)
    for first in range(0, len(candidates), _ROWS):
        part = slice(first, first + _ROWS)
        wanted = np.where(candidates[part] == pair.unknown, 0, candidates[part])[:, None]
        alike = (histories[part] == wanted) & (wanted != 0)
        counts[part] = alike.astype(np.float32) @ weights
    return counts


def lengths(samples: Mapping[str, np.ndarray], pair: HistoryPair) -> np.ndarray:
    """The number of items in each history, ``[n]``."""
    return np.count_nonzero(samples[pair.history], axis=1)
