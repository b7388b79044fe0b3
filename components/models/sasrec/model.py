"""SASRec: self-attention over the history finds the next item among all items."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from components.contract import LOG_LIKELIHOOD, only_label
from components.errors import KfrecError
from components.feature_spec import Channel, Feature, FeatureSpec
from components.feature_spec.catalogue import CATALOGUE, categories_by_item
from components.feature_spec.event_columns import columns_in
from components.feature_spec.item_columns import ITEM_COLUMNS, read_item_columns, read_item_vectors
from components.feature_spec.spec import FILENAME
from components.feature_spec.values import read_counts, read_values
from components.models.channels import read_channels
from components.models.draws import bits
from components.models.layers.dropout import Dropout
from components.models.layers.event_embedding import EventEmbedding
from components.models.layers.global_batch import gathered_over_ranks
from components.models.layers.item_features import ItemFeatures
from components.models.layers.layer_norm import LayerNorm
from components.models.layers.ranks import RankedTargets, rank_targets
from components.models.layers.softmax import cross_entropy_of_rows
from components.models.layers.token_embeddings import look_up_dense
from components.models.layers.transformer import Sizes, Transformer, initial_kernel
from components.models.layers.weights import Weights
from components.models.loss import LossTerm
from components.models.model import Table
from components.models.sasrec import ALL_ITEMS, AUTO, BATCH, COLUMNS, ID_ALONE, SasRecParameters

# Output: the rank of the target among all items, from 1.
RANK = "rank"
NEXT_ITEM = "next_item"
# Logit of what is no candidate.
_LEFT_OUT = -1e9


class SasRec(tf.Module):
    """Attention of each item of a history to those before it; the last state points at the next item.

        h_t = transformer(e_0 + p_0, ..., e_{i_t} + p_t)
        p(i | i_1, ..., i_t) = exp(h_t . e_i) / sum over the items j of exp(h_t . e_j)

    Position 0 is the beginning, before the first item, so a user without a history gets what users begin with. In
    training, every item of a history is a target, given those before it, unless histories hold other kinds of events
    than targets. With data for lists made overnight, what an item's state is to find is one of the user's next day,
    as in Pancha et al., whose users' states are computed once a day, too. What the data tell of an item's event, such
    as its device, is added to e_t; what is known of the next event before its item is chosen, such as the user's age,
    to h_t. Of a share of its targets the training knows that alone, as of those of new users. With item_features,
    what is known of an item is part of every e_i, see ``ItemFeatures``; an item that has no id yet is the rest.

    Args:
        amp: whether to compute in float16; weights, norms, softmaxes, logits and losses stay float32.

    References:
        Kang and McAuley, Self-Attentive Sequential Recommendation, https://arxiv.org/abs/1808.09781; the loss over all
        items as in Klenitskiy and Vasilev, https://arxiv.org/abs/2309.07602; the correction of the loss over a batch as
        in Yi et al., Sampling-bias-corrected neural modeling, RecSys 2019; dropout of histories as in Volkovs et al.,
        DropoutNet, NeurIPS 2017.
    """

    def __init__(self, parameters: SasRecParameters, spec: FeatureSpec, seed: int, amp: bool = False) -> None:
        super().__init__()
        channels = read_channels(spec, negatives=False)
        self._target, self._history = channels.target[0].name, channels.positive[0].name
        rows, width = (channels.target[0].cardinality or 0) + 1, parameters.item_dim
        weights = Weights(seed)
        self.items = initial_kernel(weights, "items", (rows, width))
        self.told = _told_of(parameters, spec, weights)
        self.item_columns = self.told.inputs if self.told else 0
        told = self.told.tables if self.told else {}
        self.target_inputs = (self._target, *told)
        self._events = tuple(feature.name for feature in channels.events)
        known = [column for column in columns_in(spec) if column.is_known]
        of_context = tuple(column.field for column in known)
        self.serving_features = (self._history, *self.target_inputs, *self._events, *of_context)
        self.positions = initial_kernel(weights, "positions", (channels.length + 1, width))
        self.norm = LayerNorm(weights.scope("layer_norm"), width)
        self.dropout = Dropout(weights, parameters.state_dropout)
        self.transformer = Transformer(
            weights.scope("transformer"),
            Sizes(
                layers=parameters.attention_layers,
                width=width,
                heads=parameters.attention_heads,
                feed_forward=parameters.feed_forward_dim,
                dropout=parameters.state_dropout,
                attention_dropout=parameters.state_dropout,
            ),
        )
        self.events = EventEmbedding(weights.scope("events"), channels.events, width) if channels.events else None
        embedded = [spec.features[name] for name in of_context]
        self.context = EventEmbedding(weights.scope("context"), embedded, width) if known else None
        self._sequences = {column.field: column.sequence for column in known}
        self.history_dropout = Dropout(weights.scope("histories"), parameters.history_dropout)
        of_events = {**(self.events.tables if self.events else {}), **(self.context.tables if self.context else {})}
        self.tables = {self._target: Table(self.items, 0, rows), **told, **of_events}
        self._dtype = tf.float16 if amp else tf.float32
        self._learns_histories, self._keeps_seen = spec.learns_histories, spec.keeps_seen
        self._days = next(iter(spec.channels.get(Channel.DAYS, ())), "")
        # The training step applies those of targets alone.
        weights_of = spec.channels.get(Channel.WEIGHT, ())
        self._weights = next((name for name in weights_of if spec.features[name].length), "")
        if parameters.softmax == BATCH and not spec.counts_targets:
            raise KfrecError(
                f"parameter softmax={BATCH} is corrected by how often each item is a target, which data with weights "
                f"or other kinds of events in histories do not tell; set softmax={ALL_ITEMS}"
            )
        vocabulary = spec.vocabulary_of(self._target)
        # Ids up to that of unknown items are none: the padding is 0.
        self._first = (vocabulary.unknown if vocabulary else 0) + 1
        self._log_share = _log_shares(spec, channels.target[0], rows) if parameters.softmax == BATCH else None

    def outputs(self, features: Mapping[str, tf.Tensor], training: bool = False) -> dict[str, tf.Tensor]:
        ranked = self._ranked(self._newest_states(features, training), features)
        return {LOG_LIKELIHOOD: ranked.log_likelihood, RANK: ranked.rank}

    def loss_terms(
        self,
        features: Mapping[str, tf.Tensor],
        targets: Mapping[str, tf.Tensor],
        mask: tf.Tensor,
        training: bool = True,
    ) -> tuple[dict[str, tf.Tensor], dict[str, LossTerm]]:
        history, target = (self._known(features[name]) for name in (self._history, self._target))
        chosen = only_label(targets) > 0.5 if targets else tf.ones_like(target, tf.bool)
        next_places = None
        following = _following(history, target, None)
        if training and self._days:
            next_places, is_there = _of_next_day(history, features[self._days])
            following = tf.where(is_there, _following(history, target, next_places), tf.zeros_like(history))
        learned = (following >= self._first) & chosen[:, tf.newaxis]
        if not (training and self._learns_histories):
            learned &= tf.range(history.shape[1]) == history.shape[1] - 1
        of_following = None
        if training and self._weights:
            weights = features[self._weights]
            of_following = _following(weights[:, :-1], weights[:, -1], next_places)
            # The loss over all items costs most of a step.
            learned &= of_following > 0
        places = tf.where(learned)
        states = self._states(features, training)
        if self.context:
            known = {
                name: _following(features[sequence], features[name], next_places)
                for name, sequence in self._sequences.items()
            }
            empty = {name: tf.zeros([1, 1], tf.int32) for name in (self._history, *self._events)}
            has_history = self.history_dropout(tf.ones(tf.shape(history)), training)[..., tf.newaxis] > 0
            states = tf.where(has_history, states, self._states(empty, training=False)) + self.context(known)
        states = tf.gather_nd(states, places)
        wanted = tf.gather_nd(following, places)
        losses = (
            self._in_batch(states, wanted, places, mask, training)
            if self._log_share is not None
            else self._of_all(states, wanted, training)
        )
        samples, counted, weighted = tf.shape(target)[0], tf.ones_like(losses), losses
        if of_following is not None:
            counted = tf.gather_nd(of_following, places)
            weighted = losses * counted
        total = tf.math.unsorted_segment_sum(weighted, places[:, 0], samples)
        count = tf.math.unsorted_segment_sum(counted, places[:, 0], samples)
        is_last = tf.cast(places[:, 1] == history.shape[1] - 1, losses.dtype)
        of_target = tf.math.unsorted_segment_sum(losses * is_last, places[:, 0], samples)
        return {LOG_LIKELIHOOD: -of_target}, {NEXT_ITEM: LossTerm(total, count, 1.0)}

    def user_vectors(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        return self._newest_states(features, training=False)

    def target_vectors(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        ids = self._known(features[self._target])
        vectors = tf.gather(self.items, ids)
        if self.told is None:
            return vectors
        (category,) = self.told.tables
        is_item = (ids >= self._first)[:, tf.newaxis]
        vectors = tf.where(is_item, vectors, tf.zeros_like(vectors)) + self.told.of_category(features[category])
        return vectors + self.told.of_known(ids) if self.item_columns else vectors

    def column_vectors(self, columns: tf.Tensor) -> tf.Tensor:
        assert self.told is not None
        return self.told.of_columns(columns)

    def item_logits(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """The logits of all items, float32 ``[B, rows]``; what is no item has about none of the likelihood."""
        logits = tf.matmul(self.user_vectors(features), self._all_vectors(False), transpose_b=True)
        return tf.where(tf.range(self.items.shape[0]) < self._first, _LEFT_OUT, logits)

    def _known(self, ids: tf.Tensor) -> tf.Tensor:
        """The ids, with 0 for those outside the table."""
        return tf.where((ids >= 0) & (ids < self.items.shape[0]), ids, tf.zeros_like(ids))

    def _vectors(self, ids: tf.Tensor, training: bool) -> tf.Tensor:
        """The vectors of items, float32 ``[..., width]``."""
        of_ids = look_up_dense(self.items, ids)
        return self.told(of_ids, ids, training) if self.told else of_ids

    def _all_vectors(self, training: bool) -> tf.Tensor:
        """The vectors of all items, float32 ``[rows, width]``."""
        return self.told(self.items, tf.range(self.items.shape[0]), training) if self.told else self.items

    def _states(self, features: Mapping[str, tf.Tensor], training: bool) -> tf.Tensor:
        """The state after each position of left-padded histories, float32 ``[B, L, width]``."""
        history = self._known(features[self._history])
        is_item, begins = _starts(history)
        position = tf.cumsum(tf.cast(is_item, tf.int32), 1)
        embedded = self._vectors(history, training) + look_up_dense(self.positions, position)
        if self.events:
            embedded += self.events(features)
        embedded = self.norm(embedded)
        length = history.shape[1]
        earlier = tf.constant(np.tri(length, dtype=bool))
        visible = (is_item | begins)[:, tf.newaxis] & earlier
        embedded = self.dropout(tf.cast(embedded, self._dtype), training)
        return tf.cast(self.transformer(embedded, visible, training), tf.float32)

    def _newest_states(self, features: Mapping[str, tf.Tensor], training: bool) -> tf.Tensor:
        """The states that point at the targets, float32 ``[B, width]``."""
        states = self._states(features, training)[:, -1]
        return states + self.context(features) if self.context else states

    def _ranked(self, state: tf.Tensor, features: Mapping[str, tf.Tensor]) -> RankedTargets:
        history, target = (self._known(features[name]) for name in (self._history, self._target))
        return rank_targets(state, self._all_vectors(False), self._first, target, None if self._keeps_seen else history)

    def _of_all(self, states: tf.Tensor, wanted: tf.Tensor, training: bool) -> tf.Tensor:
        """The cross-entropy of the next items among all items, ``[n]``."""
        # The gradient of tf.slice is one of a padding, many times as fast as that of a strided slice.
        items = tf.slice(self._all_vectors(training), [self._first, 0], [-1, -1])
        return cross_entropy_of_rows(states, items, wanted - self._first)

    def _in_batch(
        self, states: tf.Tensor, wanted: tf.Tensor, places: tf.Tensor, mask: tf.Tensor, training: bool
    ) -> tf.Tensor:
        """The cross-entropy of the next items among those of the global batch, ``[n]``.

        An item is in the batch about as often as in the data: subtracting the logarithm of its share leaves the softmax
        over all items.
        """
        counted = gathered_over_ranks(tf.gather(mask, places[:, 0]), "counted").values
        others = gathered_over_ranks(wanted, "wanted")
        logits = tf.matmul(states, self._vectors(others.values, training), transpose_b=True)
        logits -= tf.gather(self._log_share, others.values)
        own = others.first + tf.range(tf.shape(wanted)[0])
        is_own = own[:, tf.newaxis] == tf.range(tf.shape(others.values)[0])
        is_other = counted & (wanted[:, tf.newaxis] != others.values)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(own, tf.where(is_own | is_other, logits, _LEFT_OUT))


def _starts(history: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Whether each position is an item, and whether it is the beginning: the padding before the first item."""
    is_item = history > 0
    return is_item, tf.concat([is_item[:, 1:], tf.ones_like(is_item[:, :1])], 1) & ~is_item


def _following(history: tf.Tensor, target: tf.Tensor, places: tf.Tensor | None) -> tf.Tensor:
    """What follows each position of a history, ``[B, L]``.

    Args:
        history: ``[B, L]``.
        target: ``[B]``, at place L.
        places: of what follows, ``[B, L]``; None is the next place.
    """
    events = tf.concat([history, target[:, tf.newaxis]], 1)
    return events[:, 1:] if places is None else tf.gather(events, places, batch_dims=1)


def _of_next_day(history: tf.Tensor, days: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """An event of the user's next day for each position, drawn at random.

    Args:
        history: ``[B, L]``.
        days: of the user, from each position to the target, ``[B, L]``.

    Returns:
        The place of the event, L for the target, ``[B, L]``; and whether there is one, which is not on the target's
        day.
    """
    left = tf.concat([days, tf.zeros_like(days[:, :1])], 1)[:, tf.newaxis]
    # Events are in the order of their days: those of the next day begin after all of this day and before.
    first, end = (tf.reduce_sum(tf.cast(left >= (days - later)[:, :, tf.newaxis], tf.int32), 2) for later in (0, 1))
    drawn = tf.cast(bits("next_day", (tf.shape(days)[0], days.shape[1])), tf.int64)
    place = first + tf.cast(drawn % tf.cast(tf.maximum(end - first, 1), tf.int64), tf.int32)
    is_item, begins = _starts(history)
    return tf.minimum(place, history.shape[1]), (is_item | begins) & (days > 0)


def _told_of(parameters: SasRecParameters, spec: FeatureSpec, weights: Weights) -> ItemFeatures | None:
    """What is known of items beside their ids; None for ids alone.

    Raises:
        KfrecError: the data lack it, or a catalogue of the items.
    """
    kind = parameters.item_features
    columns = read_item_columns(spec.folder) if kind in (AUTO, COLUMNS) else None
    if kind == ID_ALONE or (kind == AUTO and columns is None):
        return None
    remedy = f"prepare them again from raw files with categories, or set item_features={ID_ALONE}"
    if kind == COLUMNS and columns is None:
        raise KfrecError(
            f"parameter item_features={COLUMNS}: {spec.folder / ITEM_COLUMNS} is missing; prepare the data again with "
            f"item_columns, or set item_features={ID_ALONE}"
        )
    item, *others = spec.channel(Channel.TARGET)
    items = spec.vocabulary_of(item.name)
    categories = spec.vocabulary_of(others[0].name) if others else None
    if items is None or categories is None:
        raise KfrecError(
            f"parameter item_features={kind}: {spec.folder / FILENAME} names no vocabulary of items and their "
            f"categories; {remedy}"
        )
    found = categories_by_item(spec, items, categories)
    if found is None:
        raise KfrecError(f"parameter item_features={kind}: {spec.folder / CATALOGUE} is missing; {remedy}")
    vectors = read_item_vectors(spec, items, columns.width) if columns else None
    return ItemFeatures(weights, others[0], found, parameters.item_dim, parameters.id_dropout, vectors)


def _log_shares(spec: FeatureSpec, item: Feature, rows: int) -> tf.Tensor:
    """The logarithm of each item's share of the data, float32 ``[rows]``; of equal shares without counts."""
    counts = np.ones(rows)
    vocabulary = spec.vocabulary_of(item.name)
    known = read_counts(spec, vocabulary) if vocabulary else None
    if vocabulary is not None and known is not None:
        counts[read_values(spec, vocabulary)[0]] = np.maximum(known, 1.0)
    return tf.constant(np.log(counts / counts.sum()), tf.float32)
