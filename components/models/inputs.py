"""Embeds the features of a batch, and counts how often the target's properties occur in the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

import tensorflow as tf

from components.feature_spec import Feature
from components.models.channels import SequenceChannels
from components.models.layers.dropout import Dropout
from components.models.layers.embedding import FusedEmbedding
from components.models.layers.event_embedding import EventEmbedding
from components.models.layers.weights import Weights
from components.models.sequences import trims_histories

# In items: the newest item alone, a session, a phase, and the whole history.
HALF_LIVES = (0.25, 1.0, 3.0, 10.0, 100.0)


class EmbeddedBatch(NamedTuple):
    """A batch of B samples; D is the width of an item, its F feature embeddings concatenated.

    Attributes:
        target: ``[B, D]``.
        user: ``[B, user_width]``, what is told of the target's event with it.
        long: the oldest items as table row indices, ``[B, L, F]``; L is None if histories are trimmed.
        long_mask: bool ``[B, L]``, false at padding.
        short: the newest items, with what is told of their events, time-major ``[S, B, D]``, so that a recurrence step
            reads a contiguous block.
        short_mask: bool ``[B, S]``, false at padding.
        candidates: for each of the newest items but the last, the next item and, with negatives, the sampled negative:
            ``[1 or 2, S - 1, B, D]``.
        repetition: the counts of ``Repetition``, ``[B, width]``; empty without it.
        long_events: what is told of the events of the oldest items, to add to their embeddings, ``[B, L, D]``; None
            without.
    """

    target: tf.Tensor
    user: tf.Tensor
    long: tf.Tensor
    long_mask: tf.Tensor
    short: tf.Tensor
    short_mask: tf.Tensor
    candidates: tf.Tensor
    repetition: tuple[tf.Tensor, ...]
    long_events: tf.Tensor | None


def _joined(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return parts[0] if len(parts) == 1 else tf.concat(parts, -1)


class SequenceInputs(tf.Module):
    """Splits the history into a long and a short one and embeds all but the long one, by far the largest.

    What is told of an item's event, such as its device, is added to the item's embedding. What is told of the target's
    event goes with the user, as the context does in Zhou et al., https://arxiv.org/abs/1706.06978.

    Args:
        short_length: number of newest items in the short history; the rest is the long one. May be 0.
        embedding_dim: width of one feature's embedding.
        repetition: whether to count how often the target's ids occur in the history.
        user_dropout: share of the training samples whose user becomes unknown.

    Attributes:
        item_width: D.
        repetition_width: width of the counts, 0 without them.
        tables: feature name to the rows that embed its ids.
    """

    def __init__(
        self,
        weights: Weights,
        channels: SequenceChannels,
        *,
        short_length: int,
        embedding_dim: int,
        dtype: tf.DType,
        repetition: bool = False,
        user_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.user_dropout = Dropout(weights.scope("user"), user_dropout) if user_dropout > 0 else None
        self.repetition = Repetition(channels) if repetition else None
        self.repetition_width = self.repetition.width if self.repetition else 0
        self._channels = channels
        self._short_length = short_length
        self._dtype = dtype
        self.embedding = FusedEmbedding(weights.scope("embedding"), channels.cardinalities, embedding_dim, dtype)
        self.item_width = embedding_dim * len(channels.target)
        self.user_width = embedding_dim * (len(channels.user) + bool(channels.context))
        columns = (
            ("events", channels.events, self.item_width),
            ("context", channels.context, embedding_dim),
        )
        self.events, self.context = (
            EventEmbedding(weights.scope(scope), features, width, dtype) if features else None
            for scope, features, width in columns
        )
        of_ids = {
            feature.name: self.embedding.table_of(index)
            for index, feature in enumerate((*channels.target, *channels.user))
        }
        of_events = [each.tables for each in (self.events, self.context) if each]
        self.tables = reduce(or_, of_events, of_ids)

    def __call__(
        self, features: Mapping[str, tf.Tensor], *, training: bool = False, negatives: bool = False
    ) -> EmbeddedBatch:
        """Embeds a batch.

        Args:
            features: ids by name, ``[B]`` or ``[B, length]``, all of one integer type. Those of user and history may be
                of one user, ``[1]`` and ``[1, length]``; the history is then embedded once, with a batch of 1.
            training: whether to forget users.
            negatives: whether to embed the negative history.
        """
        channels = self._channels
        history = self._trimmed(features) if trims_histories() else features
        any_history = history[channels.positive[0].name]
        boundary = (any_history.shape[1] or tf.shape(any_history)[1]) - self._short_length
        long = self._rows(history, channels.positive, slice(0, boundary))
        short = self._rows(history, channels.positive, slice(boundary, None), time_first=True)
        short.set_shape([self._short_length, any_history.shape[0], None])
        following = [short[1:]]
        if negatives:
            newest = slice((channels.negative[0].length or 0) - self._short_length + 1, None)
            following.append(self._rows(features, channels.negative, newest, time_first=True))
        target = self.embedding(self._rows(features, channels.target))
        parts = []
        if channels.user:
            known = self._forgotten(features) if training and self.user_dropout else features
            parts.append(self.embedding(self._rows(known, channels.user, first_table=len(channels.target))))
        if self.context:
            parts.append(self.context(features))
        # Of one user, or of each target.
        parts = [tf.repeat(part, tf.shape(target)[0], 0) if part.shape[0] == 1 else part for part in parts]
        newest = self.embedding(short, has_padding=True)
        return EmbeddedBatch(
            target=target,
            user=_joined(parts) if parts else tf.zeros([tf.shape(target)[0], 0], target.dtype),
            long=long,
            long_mask=long[..., 0] > 0,
            short=newest + self._newest_events(history, boundary) if self.events else newest,
            short_mask=tf.transpose(short[..., 0]) > 0,
            candidates=self.embedding(tf.stack(following), has_padding=True),
            repetition=(tf.cast(self.repetition(features), self._dtype),) if self.repetition else (),
            long_events=self.events(history, slice(0, boundary)) if self.events else None,
        )

    def _newest_events(self, history: Mapping[str, tf.Tensor], boundary: int | tf.Tensor) -> tf.Tensor:
        """What is told of the events of the newest items, ``[S, B, D]``."""
        assert self.events is not None
        return tf.transpose(self.events(history, slice(boundary, None)), [1, 0, 2])

    def _forgotten(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The user's features, those of a random share of the samples with their unknown ids."""
        assert self.user_dropout is not None
        rows = tf.shape(features[self._channels.user[0].name])
        is_known = self.user_dropout(tf.ones(rows)) > 0
        return {
            feature.name: tf.where(is_known, features[feature.name], tf.cast(unknown, features[feature.name].dtype))
            for feature, unknown in zip(self._channels.user, self._channels.unknown_user, strict=True)
        }

    def _trimmed(self, features: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """The positive history without leading positions that are padding in every sample.

        Keeps the short history and at least one position of the long one.
        """
        names = [feature.name for feature in (*self._channels.positive, *self._channels.events)]
        used = tf.cast(tf.reduce_any(features[names[0]] > 0, 0), tf.int64)
        padding = tf.reduce_sum(tf.cast(tf.cumsum(used) == 0, tf.int64))
        most = max(self._channels.length - self._short_length - 1, 0)
        return {name: features[name][:, tf.minimum(padding, tf.constant(most, tf.int64)) :] for name in names}

    def _rows(
        self,
        features: Mapping[str, tf.Tensor],
        channel: tuple[Feature, ...],
        positions: slice = slice(None),
        *,
        time_first: bool = False,
        first_table: int = 0,
    ) -> tf.Tensor:
        """See ``FusedEmbedding.rows``; item features use the first tables."""
        return self.embedding.rows([features[feature.name] for feature in channel], first_table, positions, time_first)


class Repetition(tf.Module):
    """Logarithms of recency-weighted counts of the target's ids among the history's.

        ln(1 + sum_l 2^(-age_l / h) [history_fl = target_f])

    for each property f of an item, such as its id and its category, and each half-life h; age_l counts items back from
    the newest one, 0. A network must learn from the data that equal embeddings are equal ids, and a softmax over the
    history forgets how many there are.

    Attributes:
        width: number of counts.

    Examples:
        The target's category occurs in the two newest items of a history and nowhere else: ``ln(2 + 2^(-1 / h))`` for
        each half-life h.
    """

    def __init__(self, channels: SequenceChannels) -> None:
        super().__init__()
        self._pairs = [
            (target.name, history.name) for target, history in zip(channels.target, channels.positive, strict=True)
        ]
        self._length = channels.length
        self.width = len(self._pairs) * len(HALF_LIVES)

    def __call__(self, features: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Counts for a batch of ids, ``[B]`` and ``[B, length]``; returns float32 ``[B, width]``."""
        ages = tf.range(self._length - 1, -1, -1, tf.float32)
        decays = tf.stack([tf.pow(0.5, ages / half_life) for half_life in HALF_LIVES], 1)
        is_item = features[self._pairs[0][1]] > 0
        counts = [
            tf.cast((features[history] == features[target][:, tf.newaxis]) & is_item, tf.float32) @ decays
            for target, history in self._pairs
        ]
        return tf.math.log1p(tf.concat(counts, 1))
