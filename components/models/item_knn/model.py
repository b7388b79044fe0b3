"""Item-kNN: counts of items near each other, mixed by learned weights, find the next item among all items."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from components.contract import LOG_LIKELIHOOD, only_label
from components.feature_spec import Channel, FeatureSpec
from components.models.channels import read_channels
from components.models.item_knn import ItemKnnParameters
from components.models.layers.ranks import rank_scores
from components.models.layers.weights import Weights
from components.models.loss import LossTerm

# Pairs in memory before equal ones are summed.
_PAIRS = 1 << 23
# Stands before each item once per occurrence, so that its pairs count how often items occur.
BEGINNING = 0


class Pairs(NamedTuple):
    """Pairs of an item and a later one, ``[n]`` each; those of BEGINNING count the occurrences of the second item."""

    before: np.ndarray
    after: np.ndarray
    times: np.ndarray


class Nearest(NamedTuple):
    """The neighbours of each item.

    Attributes:
        items: int64 ``[rows, K]``, the nearest first, 0 where there are fewer.
        shares: float32 ``[rows, K]``, which sum to 1 over an item's neighbours; 0 where there are fewer.
        units: float32 ``[rows]``, the share of a pair that counts 1, of a neighbour whose popularity is 1; 0 without
            neighbours.
        popularity: float32 ``[rows]``, the share of each item in all occurrences.
    """

    items: np.ndarray
    shares: np.ndarray
    units: np.ndarray
    popularity: np.ndarray


def count_pairs(windows: Iterable[np.ndarray], rows: int, distance: int) -> Pairs:
    """Counts the pairs of items that follow each other within a distance.

        count(i, j) = sum over the times that j is d places after i, d <= distance: 1 / d

    Args:
        windows: ids of items, oldest first, 0 for none, ``[n, length]`` each.
        rows: one above the largest id.
    """
    keys, counts, largest = [np.zeros(0, np.int64)], [np.zeros(0)], _PAIRS
    for window in windows:
        ids = window.astype(np.int64)
        keys.append(ids[ids > 0])
        counts.append(np.ones(len(keys[-1])))
        for apart in range(1, min(distance, ids.shape[1] - 1) + 1):
            before, after = ids[:, :-apart], ids[:, apart:]
            is_pair = (before > 0) & (after > 0) & (before != after)
            keys.append(before[is_pair] * rows + after[is_pair])
            counts.append(np.full(len(keys[-1]), 1 / apart))
        if sum(map(len, keys)) > largest:
            key, count = _summed(np.concatenate(keys), np.concatenate(counts))
            # As many pairs again before the next sum, so that each is summed a few times at most.
            keys, counts, largest = [key], [count], max(_PAIRS, 2 * len(key))
    key, count = _summed(np.concatenate(keys), np.concatenate(counts))
    return Pairs(key // rows, key % rows, count)


def nearest(pairs: Pairs, rows: int, neighbours: int, backward: float, discount: float) -> Nearest:
    """The items that are counted most often near each item.

        near(i, j) = (count(i, j) + backward * count(j, i)) / popularity(j)^discount

    Args:
        pairs: equal ones are summed.
        rows: one above the largest id.
        neighbours: K, items to keep of an item.
    """
    is_item = pairs.before == BEGINNING
    occurrences = np.bincount(pairs.after[is_item], pairs.times[is_item], minlength=rows)
    popularity = occurrences / max(occurrences.sum(), 1)
    before, after, count = (values[~is_item] for values in pairs)
    key, near = _summed(
        np.concatenate([before * rows + after, after * rows + before]), np.concatenate([count, backward * count])
    )
    owner, item = key // rows, key % rows
    near = near / popularity[item] ** discount
    order = np.lexsort((item, -near, owner))
    order = order[near[order] > 0]
    owner, item, near = owner[order], item[order], near[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    is_kept = place < neighbours
    owner, item, near, place = owner[is_kept], item[is_kept], near[is_kept], place[is_kept]
    totals = np.bincount(owner, near, minlength=rows)
    items, shares = np.zeros((rows, neighbours), np.int64), np.zeros((rows, neighbours), np.float32)
    items[owner, place], shares[owner, place] = item, near / totals[owner]
    units = np.divide(1, totals, out=np.zeros(rows), where=totals > 0)
    return Nearest(items, shares, units.astype(np.float32), popularity.astype(np.float32))


def _summed(keys: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys, ascending, and the sum of the counts of each."""
    distinct, place = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(place, counts, minlength=len(distinct))


# Output: the rank of the target among all items, from 1.
RANK = "rank"
NEXT_ITEM = "next_item"
# Share of popularity in the likelihood, at the start.
_POPULAR = 0.05
# Logit of a position whose item has no neighbours.
_LEFT_OUT = -1e9
# The smallest likelihood, which float32 does not flush to 0.
_LEAST = 1e-37


class ItemKnn(tf.Module):
    """The neighbours of the items of a history, weighed by how new these are.

        p(j | i_1, ..., i_t) = (1 - b) sum over a of w_a share(i_{t-a}, j) + b popularity(j)
        w_a = q^a / sum over the positions a' of q^a'

    ``share(i, j)`` is what j has of all that is counted near i, see ``counts.nearest``; it sums to 1 over the K nearest
    items. Items without neighbours have no weight; a user with no others gets the popularity of items. The counts are
    those of the training samples, taken before the first step. Training learns b and q: the likelihood of a sample's
    target leaves out what the sample itself has counted, or its own pairs would seem to predict it. With data for lists
    made overnight, it also leaves out the items of the target's day.

    Args:
        amp: ignored; all of it is float32.

    References:
        Sarwar et al., Item-based collaborative filtering recommendation algorithms, WWW 2001; the mixture over the
        positions of a history as in Raftery, A model for high-order Markov chains, 1985.
    """

    def __init__(self, parameters: ItemKnnParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        channels = read_channels(spec, negatives=False)
        self._target, self._history = channels.target[0].name, channels.positive[0].name
        self.serving_features = (self._history, self._target)
        self.target_inputs = (self._target,)
        self.tables: dict[str, object] = {}
        self._parameters, self._rows = parameters, (channels.target[0].cardinality or 0) + 1
        vocabulary = spec.vocabulary_of(self._target)
        # Ids up to that of unknown items are none: the padding is 0.
        self._first = (vocabulary.unknown if vocabulary else 0) + 1
        weights = Weights(seed)
        self.decay = weights.constant("decay", (1,), _logit(parameters.history_decay))
        self.popular = weights.constant("popular", (1,), _logit(_POPULAR))
        self._keeps_seen = spec.keeps_seen
        self._days = next(iter(spec.channels.get(Channel.DAYS, ())), "")
        self._label = next((feature.name for feature in spec.targets), "")
        kept = (self._rows, parameters.neighbours)
        # A GPU gathers rows of int64, and not of int32.
        self.items = _counted("items", tf.zeros(kept, tf.int64))
        self.shares = _counted("shares", tf.zeros(kept))
        self.units = _counted("units", tf.zeros(kept[:1]))
        self.popularity = _counted("popularity", tf.zeros(kept[:1]))

    def count(self, samples: Iterable[Mapping[str, np.ndarray]]) -> Sequence[np.ndarray]:
        return count_pairs(self._windows(samples), self._rows, self._parameters.pair_distance)

    def fit(self, counts: Sequence[np.ndarray]) -> None:
        settings = self._parameters
        found = nearest(
            Pairs(*counts), self._rows, settings.neighbours, settings.backward, settings.popularity_discount
        )
        for variable, values in zip((self.items, self.shares, self.units, self.popularity), found, strict=True):
            variable.assign(values)

    def _windows(self, samples: Iterable[Mapping[str, np.ndarray]]) -> Iterator[np.ndarray]:
        """The chosen items of each sample, oldest first, int ``[n, L + 1]``."""
        for batch in samples:
            events = np.concatenate([batch[self._history], batch[self._target][:, np.newaxis]], 1)
            if self._label:
                events = events[batch[self._label] > 0]
            yield np.where((events >= self._first) & (events < self._rows), events, 0)

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        return self.ranked(features, self.item_scores(features))

    def ranked(self, features: Mapping[str, tf.Tensor], scores: tf.Tensor) -> dict[str, tf.Tensor]:
        """The outputs, from the log-likelihoods of all items, ``[B, rows]``."""
        target, history = self._known(features[self._target]), self._known(features[self._history])
        own = tf.gather(scores, target, batch_dims=1)
        return {
            LOG_LIKELIHOOD: own,
            RANK: rank_scores(scores, self._first, target, None if self._keeps_seen else history),
        }

    def item_scores(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        history = tf.cast(self._known(features[self._history]), tf.int64)
        weights, users = self._weights(history), tf.shape(history, tf.int64)[0]
        near = weights[:, :, tf.newaxis] * tf.gather(self.shares, history)
        places = tf.gather(self.items, history) + self._rows * tf.range(users)[:, tf.newaxis, tf.newaxis]
        summed = tf.math.unsorted_segment_sum(tf.reshape(near, [-1]), tf.reshape(places, [-1]), users * self._rows)
        return self._log_likelihood(tf.reshape(summed, [-1, self._rows]), weights, self.popularity)

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        target, history = (tf.cast(self._known(features[name]), tf.int64) for name in (self._target, self._history))
        if training and self._days:
            history = tf.where(features[self._days] > 0, history, 0)
        chosen = only_label(targets) > 0.5 if targets else tf.ones_like(target, tf.bool)
        is_target = tf.gather(self.items, history) == target[:, tf.newaxis, tf.newaxis]
        shares = tf.reduce_sum(tf.where(is_target, tf.gather(self.shares, history), 0.0), -1)
        if training:
            own = self._own_shares(history, target)
            # What is left of the neighbour, of what is left of all neighbours.
            shares = tf.math.divide_no_nan(tf.maximum(shares - own, 0.0), 1 - own)
        weights = self._weights(history)
        near = tf.reduce_sum(weights * shares, 1, keepdims=True)
        likelihood = self._log_likelihood(near, weights, tf.gather(self.popularity, target)[:, tf.newaxis])[:, 0]
        count = tf.cast(chosen & (target >= self._first), tf.float32)
        return {LOG_LIKELIHOOD: likelihood}, {NEXT_ITEM: LossTerm(-likelihood * count, count, 1.0)}

    def _known(self, ids: tf.Tensor) -> tf.Tensor:
        """The ids, with 0 for those that are no items."""
        return tf.where((ids >= self._first) & (ids < self._rows), ids, tf.zeros_like(ids))

    def _weights(self, history: tf.Tensor) -> tf.Tensor:
        """The weight of each position, float32 ``[B, L]``; all are 0 where no item has neighbours."""
        has_neighbours = tf.gather(self.units, history) > 0
        decayed = tf.math.log_sigmoid(self.decay) * _ago(history)
        return tf.nn.softmax(tf.where(has_neighbours, decayed, _LEFT_OUT)) * tf.cast(has_neighbours, tf.float32)

    def _own_shares(self, history: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """What the pair of each position and the target counts of the shares, float32 ``[B, L]``."""
        apart = _ago(history) + 1
        counted = tf.where(apart <= self._parameters.pair_distance, 1 / apart, 0.0)
        popularity = tf.maximum(tf.gather(self.popularity, target), _LEAST)
        discounts = tf.pow(popularity, -self._parameters.popularity_discount)
        return tf.minimum(counted * tf.gather(self.units, history) * discounts[:, tf.newaxis], 1.0)

    def _log_likelihood(self, near: tf.Tensor, weights: tf.Tensor, popularity: tf.Tensor) -> tf.Tensor:
        """The logarithm of the likelihood of items, float32 ``[B, n]``.

        Args:
            near: mean share of each item as a neighbour, ``[B, n]``.
            weights: of the positions, ``[B, L]``.
            popularity: of each item, ``[n]`` or ``[B, n]``.
        """
        by_history = tf.sigmoid(-self.popular) * tf.reduce_sum(weights, 1, keepdims=True)
        by_items = tf.sigmoid(-self.popular) * near
        return tf.math.log(tf.maximum(by_items + (1 - by_history) * popularity, _LEAST))


def _ago(history: tf.Tensor) -> tf.Tensor:
    """How many items ago each position is, float32 ``[L]``; the newest one is 0."""
    return tf.range(history.shape[1] - 1, -1, -1, tf.float32)


def _counted(name: str, values: tf.Tensor) -> tf.Variable:
    """A variable that counts fill and no optimizer changes."""
    return tf.Variable(values, trainable=False, name=f"counted/{name}")


def _logit(share: float) -> float:
    return math.log(share / (1 - share))
