"""What the task click is compared with: popularity, also of the last days, recency, and a logistic regression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from components.feature_spec import Channel, FeatureSpec
from components.feature_spec.values import read_counts, read_recent, read_values
from components.metrics import roc_auc
from components.tasks.binary.columns import fit_logistic
from components.tasks.controls import BASELINE, RECENT_POPULARITY, Samples

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

POPULARITY, RECENCY = "popularity", "recency"
# Mean number of items that a count looks back on; infinity weighs all alike.
SPANS = (1.0, 3.0, 10.0, 30.0, float("inf"))
_MOST_PAIRS = 3
# Samples whose histories are compared at a time, so that temporary arrays stay small.
_ROWS = 8192


@dataclass(frozen=True)
class HistoryPair:
    """One property of an item: in the candidate, and in the history.

    Attributes:
        history: feature of the history, oldest item first, left-padded with 0.
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


class HistoryBaselines:
    """The baselines of data with histories.

    - popularity: how often the candidate occurs, by the column ``count`` of its vocabulary, or else in the clicked
      samples of the first part of the training split;
    - recent popularity: how often it does in the last days of training, by the column ``recent`` of its vocabulary;
      popularity orders equal ones; left out without that column;
    - recency: the recency-weighted count of the candidate's category in the history (of the candidate itself, if items
      have no category), for the span that ranks the training samples best;
    - baseline: a logistic regression on the logarithms (ln(1 + x)) of all these counts, for every property and span,
      and of popularity and history length, and on whether the history has the candidate.

    Args:
        pairs: of ``history_pairs``, at least one.
    """

    def __init__(self, spec: FeatureSpec, pairs: Sequence[HistoryPair]) -> None:
        self._spec, self._pairs = spec, tuple(pairs)
        self._label = spec.targets[0].name
        self._popularity = np.zeros(0)
        self._recent: np.ndarray | None = None
        self._regression: Pipeline | None = None
        self._span = 0

    @property
    def features(self) -> tuple[str, ...]:
        names = (name for pair in self._pairs for name in (pair.target, pair.history))
        return tuple(dict.fromkeys((self._label, *names)))

    @property
    def about(self) -> Mapping[str, str]:
        return {}

    def fit(self, first: Iterable[Samples], second: Iterable[Samples]) -> None:
        self._recent = read_recent(self._spec, self._pairs[0].target)
        known = _known_counts(self._spec, self._pairs[0])
        if known is None:
            self._popularity = self._counted(first)
        else:
            self._popularity, second = known, chain(first, second)
        parts = [(self._columns(samples), samples[self._label] > 0) for samples in second]
        columns = np.concatenate([np.zeros((0, self._width)), *(part for part, _ in parts)])
        labels = np.concatenate([np.zeros(0, bool), *(part for _, part in parts)])
        if labels.any() and not labels.all():
            self._span = int(np.argmax([roc_auc(labels, columns[:, span]) for span in range(len(SPANS))]))
            self._regression = fit_logistic(columns, labels)

    def scores(self, samples: Samples) -> dict[str, np.ndarray]:
        targets = samples[self._pairs[0].target]
        if self._regression is None or not len(targets):
            return {}
        columns, popularity = self._columns(samples), self._popularity[targets]
        recent = {}
        if self._recent is not None:
            recent[RECENT_POPULARITY] = self._recent[targets] + popularity / (self._popularity.sum() + 1)
        return {
            POPULARITY: popularity,
            **recent,
            RECENCY: columns[:, self._span],
            BASELINE: self._regression.decision_function(columns),
        }

    @property
    def _width(self) -> int:
        return len(self._pairs) * len(SPANS) + 3

    def _columns(self, samples: Samples) -> np.ndarray:
        """float64 ``[n, width]``: the counts of the category first, see RECENCY."""
        item = self._pairs[0]
        ordered = sorted(self._pairs, key=lambda pair: pair is item)
        counts = [recency_counts(samples, pair) for pair in ordered]
        own = counts[-1]
        rest = [np.log1p(self._popularity[samples[item.target]]), np.log1p(lengths(samples, item)), own[:, -1] > 0]
        return np.column_stack([*(np.log1p(each) for each in counts), *rest]).astype(np.float64)

    def _counted(self, batches: Iterable[Samples]) -> np.ndarray:
        item = self._pairs[0].target
        counts = np.zeros((self._spec.features[item].cardinality or 0) + 1)
        for samples in batches:
            counts += np.bincount(samples[item][samples[self._label] > 0], minlength=len(counts))
        return counts


def history_baselines(spec: FeatureSpec) -> HistoryBaselines | None:
    """The baselines; None for data without a history, a label, or one of the splits."""
    pairs = history_pairs(spec)
    if not pairs or not {"train", "test"} <= set(spec.sources) or not spec.targets:
        return None
    baselines = HistoryBaselines(spec, pairs)
    held = all(set(baselines.features) <= set(spec.sources[split].features) for split in ("train", "test"))
    return baselines if held else None


def _known_counts(spec: FeatureSpec, item: HistoryPair) -> np.ndarray | None:
    """The count of each id by the item's vocabulary, float64 ``[cardinality + 1]``; None if it has no counts."""
    vocabulary = spec.vocabulary_of(item.target)
    counts = read_counts(spec, vocabulary) if vocabulary else None
    if vocabulary is None or counts is None:
        return None
    totals = np.zeros((spec.features[item.target].cardinality or 0) + 1)
    totals[read_values(spec, vocabulary)[0]] = counts
    return totals
