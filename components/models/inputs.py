"""From the features of a batch to embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import tensorflow as tf

from components.feature_spec import Feature
from components.models.channels import SequenceChannels
from components.models.layers.embedding import FusedEmbedding, Ids
from components.models.layers.weights import Weights


class EmbeddedBatch(NamedTuple):
    """A batch of B samples; D is the width of an item, all its features side by side.

    Attributes:
        target: ``[B, D]``.
        user: ``[B, width of a user]``.
        long: the oldest items, ``[B, L, D]``; at padding it holds whatever the padding's row holds.
        long_mask: bool ``[B, L]``, false at padding.
        short: the newest items, ``[S, B, D]``. Time comes before the batch, so that a step of a recurrence is a
            contiguous block.
        short_mask: bool ``[B, S]``, false at padding.
        candidates: what may come after each of the newest items but the last, ``[1 or 2, S - 1, B, D]``: the item that
            did and, where negatives are asked for, the one in the negative history.
    """

    target: tf.Tensor
    user: tf.Tensor
    long: tf.Tensor
    long_mask: tf.Tensor
    short: tf.Tensor
    short_mask: tf.Tensor
    candidates: tf.Tensor


class SequenceInputs(tf.Module):
    """Splits the history into a long and a short one and embeds everything with one lookup.

    Args:
        weights: source of fresh weights.
        channels: the features to read.
        short_length: newest items that form the short history; the rest is the long one. 0 makes all of it long.
        embedding_dim: width of one feature's embedding.
        dtype: of the embeddings.

    Attributes:
        item_width: D.
        user_width: width of a user.
        tables: name of the feature behind each embedding table, in the order of the tables.
    """

    def __init__(
        self,
        weights: Weights,
        channels: SequenceChannels,
        *,
        short_length: int,
        embedding_dim: int,
        dtype: tf.DType,
    ) -> None:
        super().__init__()
        self._channels = channels
        self._short_length = short_length
        self.embedding = FusedEmbedding(weights.scope("embedding"), channels.cardinalities, embedding_dim, dtype)
        self.tables = tuple(feature.name for feature in (*channels.target, *channels.user))
        self.item_width = embedding_dim * len(channels.target)
        self.user_width = embedding_dim * len(channels.user)

    def __call__(
        self, features: Mapping[str, tf.Tensor], *, long: bool = True, negatives: bool = False
    ) -> EmbeddedBatch:
        """Embeds a batch.

        Args:
            features: ids by name, ``[B]`` or ``[B, length]``, all of one integer type.
            long: whether the long history is wanted; else it comes back with a length of 0.
            negatives: whether the negative history is wanted.
        """
        channels = self._channels
        target = stack_ids(features, channels.target)
        history = stack_ids(features, channels.positive)
        boundary = channels.length - self._short_length
        long_ids, short_ids = history[:, : boundary if long else 0], history[:, boundary:]
        candidate_ids = [short_ids[:, 1:]]
        if negatives:
            negative = stack_ids(features, channels.negative)
            candidate_ids.append(negative[:, negative.shape[1] - self._short_length + 1 :])
        user = stack_ids(features, channels.user) if channels.user else tf.zeros([tf.shape(target)[0], 0], target.dtype)
        # Items have the first tables, users the ones after them.
        embedded_long, first, candidates, embedded_target, embedded_user = self.embedding(
            [
                Ids(long_ids, 0),
                Ids(tf.transpose(short_ids[:, :1], [1, 0, 2]), 0),
                Ids(tf.transpose(tf.stack(candidate_ids), [0, 2, 1, 3]), 0),
                Ids(target, 0),
                Ids(user, len(channels.target)),
            ]
        )
        return EmbeddedBatch(
            target=embedded_target,
            user=embedded_user,
            long=embedded_long,
            long_mask=long_ids[..., 0] > 0,
            short=tf.concat([first, tf.unstack(candidates, num=len(candidate_ids))[0]], 0),
            short_mask=short_ids[..., 0] > 0,
            candidates=candidates,
        )


def stack_ids(features: Mapping[str, tf.Tensor], channel: tuple[Feature, ...]) -> tf.Tensor:
    """The ids of a channel side by side, those outside 0..cardinality replaced by 0, the padding.

    Args:
        features: integer ids by feature name, ``[B]`` or ``[B, length]``.
        channel: at least one feature.

    Returns:
        ``[B, F]`` or ``[B, length, F]``, in the type of the ids.
    """
    known = []
    for feature in channel:
        ids = features[feature.name]
        inside = (ids >= 0) & (ids <= tf.constant(feature.cardinality, ids.dtype))
        known.append(tf.where(inside, ids, tf.zeros_like(ids)))
    return tf.stack(known, axis=-1)
