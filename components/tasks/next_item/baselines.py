"""What the task next_item is compared with: popularity, also of the last days, what others chose after the same, and
itself with shuffled columns of events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain

import numpy as np

from components.contract import LONGEST_LIST
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.event_columns import columns_in
from components.feature_spec.values import read_recent
from components.tasks.controls import BASELINE, RECENT_POPULARITY, Controls, Probe, Samples
from components.tasks.next_item import RANK, NextItemEvaluation

POPULARITY = "popularity"
# Newest items of a history that a pair of items is counted in and looked up by.
_NEWEST = 20
_LOOKED_UP = 5
# Largest distance of two items of a pair, in items.
_APART = 3
# Test samples that are ranked by the baselines, and training samples whose histories they count.
_USERS, _HISTORIES = 20_000, 200_000
# Scores in memory at a time.
_SCORES = 1 << 24


class NextItemBaselines:
    """Ranks of the target among all items; those of the history are left out, unless the data keep seen items.

    - popularity: by how often each item occurs in the training samples;
    - recent popularity: by how often it does in the last days of training, by the column ``recent`` of its vocabulary;
      popularity orders equal ones;
    - baseline: by what followed the newest items of the history there: with ``c(i, j)`` the times that j followed i
      within three items, nearer ones counting more, and i itself only where seen items are kept,

          score(j) = sum over the a-th newest item i of the history: 0.5^a * c(i, j) / (sum of c(i, .))

      and popularity where that is 0.
    """

    def __init__(self, spec: FeatureSpec, target: Feature, history: Feature) -> None:
        self._target, self._history = target.name, history.name
        self._rows = (target.cardinality or 0) + 1
        vocabulary = spec.vocabulary_of(target.name)
        self._unknown = vocabulary.unknown if vocabulary else 0
        self._learns_histories, self._keeps_seen = spec.learns_histories, spec.keeps_seen
        self._spec, self._popularity = spec, np.zeros(0)
        self._recent: np.ndarray | None = None
        self._followers: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def features(self) -> tuple[str, ...]:
        return (self._target, self._history)

    @property
    def about(self) -> Mapping[str, str]:
        return {}

    def fit(self, first: Iterable[Samples], second: Iterable[Samples]) -> None:
        self._recent = read_recent(self._spec, self._target)
        counts, keys, weights = np.zeros(self._rows), [], []
        for samples in chain(first, second):
            events = self._events(samples)
            # Only the target counts where items of a history are of other kinds of events.
            counted = slice(None) if self._learns_histories else slice(-1, None)
            counts += np.bincount(events[:, counted].ravel(), minlength=self._rows)
            for apart in range(1, _APART + 1):
                before, after = events[:, :-apart][:, counted], events[:, apart:][:, counted]
                pairs = (before > 0) & (after > 0) & (self._keeps_seen | (before != after))
                keys.append(before[pairs].astype(np.int64) * self._rows + after[pairs])
                weights.append(np.full(len(keys[-1]), 1.0 / apart))
        counts[[0, self._unknown]] = 0
        if not counts.any():
            return
        self._popularity = counts / (counts.sum() + 1)
        distinct, place = np.unique(np.concatenate(keys), return_inverse=True)
        totals = np.bincount(place, np.concatenate(weights), minlength=len(distinct))
        owners, followers = distinct // self._rows, distinct % self._rows
        shares = totals / np.bincount(owners, totals, minlength=self._rows)[owners]
        self._followers = np.searchsorted(owners, np.arange(self._rows + 1)), followers, shares

    def scores(self, samples: Samples) -> dict[str, np.ndarray]:
        if self._followers is None:
            return {}
        history, target = self._cleaned(samples[self._history]), self._cleaned(samples[self._target])
        ranks = {name: np.zeros(len(target)) for name in (POPULARITY, RECENT_POPULARITY, BASELINE)}
        if self._recent is None:
            del ranks[RECENT_POPULARITY]
        step = max(1, _SCORES // self._rows)
        for first in range(0, len(target), step):
            part = slice(first, first + step)
            # Below any count or weight of a pair, so that it only orders what these do not.
            least = 1e-9 * self._popularity
            scores = {POPULARITY: self._popularity, BASELINE: self._pair_scores(history[part]) + least}
            if self._recent is not None:
                scores[RECENT_POPULARITY] = self._recent + least
            for name, of_items in scores.items():
                of_users = np.broadcast_to(of_items, (len(target[part]), self._rows))
                ranks[name][part] = self._ranks(of_users, history[part], target[part])
        return ranks

    def _events(self, samples: Samples) -> np.ndarray:
        """The newest items of each history and the target, ``[n, at most 21]``, 0 for unknown ones."""
        history = samples[self._history][:, -_NEWEST:]
        return self._cleaned(np.concatenate([history, samples[self._target][:, np.newaxis]], 1))

    def _cleaned(self, ids: np.ndarray) -> np.ndarray:
        known = (ids > 0) & (ids < self._rows) & (ids != self._unknown)
        return np.where(known, ids, 0).astype(np.int64)

    def _pair_scores(self, history: np.ndarray) -> np.ndarray:
        """float64 ``[n, rows]``."""
        assert self._followers is not None
        begin, followers, totals = self._followers
        scores = np.zeros((len(history), self._rows))
        for ago in range(min(_LOOKED_UP, history.shape[1])):
            items = history[:, -1 - ago]
            counts = np.where(items > 0, begin[items + 1] - begin[items], 0)
            rows = np.repeat(np.arange(len(items)), counts)
            places = (
                np.arange(counts.sum())
                - np.repeat(np.cumsum(counts) - counts, counts)
                + np.repeat(begin[items], counts)
            )
            # An item follows another once in the list, so no place is added to twice.
            scores[rows, followers[places]] += 0.5**ago * totals[places]
        return scores

    def _ranks(self, scores: np.ndarray, history: np.ndarray, target: np.ndarray) -> np.ndarray:
        """The mean rank of ties; that of a target which is unknown or left out is above LONGEST_LIST and all items."""
        rows = np.arange(len(target))
        own = scores[rows, target]
        scores, is_listed = scores.copy(), target > 0
        if not self._keeps_seen:
            is_listed &= (history != target[:, np.newaxis]).all(1)
            scores[rows[:, np.newaxis], history] = -np.inf
        scores[:, [0, self._unknown]] = -np.inf
        scores[rows, target] = own
        level = (scores == own[:, np.newaxis]).sum(1)
        ranks = 1 + (scores > own[:, np.newaxis]).sum(1) + (level - 1) / 2
        return np.where(is_listed, ranks, max(self._rows, LONGEST_LIST + 1))


def controls(spec: FeatureSpec, parameters: NextItemEvaluation) -> Controls | None:
    """The baselines, and the columns of events; None for data without a history, or if parameters leave them out."""
    targets, histories = (spec.channels.get(name, ()) for name in (Channel.TARGET, Channel.POSITIVE))
    if not (targets and histories and {"train", "test"} <= set(spec.sources)):
        return None
    baselines = NextItemBaselines(spec, spec.features[targets[0]], spec.features[histories[0]])
    if not all(set(baselines.features) <= set(spec.sources[split].features) for split in ("train", "test")):
        return None
    columns = shuffled_columns(spec) if parameters.importance_samples else ()
    return Controls(
        (),
        baselines,
        RANK,
        _USERS,
        _HISTORIES,
        columns=columns,
        column_samples=parameters.importance_samples,
    )


def shuffled_columns(spec: FeatureSpec) -> tuple[Probe, ...]:
    """A probe for each column of events, of the histories and, where it is known, of the target's event."""
    held = set(spec.sources["test"].features)
    found = []
    for number, column in enumerate(columns_in(spec)):
        features = tuple(name for name in (column.sequence, column.field) if name in held)
        if features:
            found.append(Probe(column.name, features, features, partial(shuffled, features=features, seed=number)))
    return tuple(found)


def shuffled(samples: Samples, features: tuple[str, ...], seed: int) -> dict[str, np.ndarray]:
    """The features with the values of other events; what pads stays."""
    rng, changed = np.random.default_rng(seed), {}
    for name in features:
        values = samples[name].copy()
        values[values > 0] = rng.permutation(values[values > 0])
        changed[name] = values
    return changed
