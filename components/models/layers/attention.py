"""Attention of a target item over a history: dot products, masked softmax, the k best positions."""

from __future__ import annotations

import tensorflow as tf

# Far below any score, and finite, so that a history of nothing but padding has no infinities to subtract.
_NEVER = -1e9


def dot_scores(items: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """``items · target`` at every position.

    Args:
        items: ``[B, T, D]``.
        target: ``[B, D]``.

    Returns:
        float32 ``[B, T]``.
    """
    return tf.cast(tf.linalg.matvec(items, target), tf.float32)


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the positions that count.

    Args:
        scores: ``[B, T]``.
        mask: bool ``[B, T]``.

    Returns:
        float32 ``[B, T]``: exactly 0 where the mask is false, and a sum of 1 over the rest. A sample with no position
        gets zeros, and no gradient.
    """
    softmax = tf.nn.softmax(tf.where(mask, tf.cast(scores, tf.float32), _NEVER))
    return softmax * tf.cast(mask, tf.float32)


def top_k_mask(scores: tf.Tensor, k: int) -> tf.Tensor:
    """Marks the k highest scores that are above 0; of equal scores the earlier positions go first.

    A sum over the k best items is a sum over all items under this mask: nothing needs to be gathered or copied.

    Args:
        scores: ``[B, T]``.
        k: how many to mark, at most T.

    Returns:
        bool ``[B, T]``.
    """
    positive = scores > 0
    if k >= scores.shape[-1]:
        return positive
    threshold = tf.math.top_k(scores, k, sorted=True).values[:, -1:]
    above, level = scores > threshold, scores == threshold
    room = k - tf.reduce_sum(tf.cast(above, tf.int32), -1, keepdims=True)
    first = tf.cumsum(tf.cast(level, tf.int32), -1) <= room
    return positive & (above | (level & first))


def pool(weights: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
    """Weighted sums over a history.

    Args:
        weights: ``[B, N, T]``, N different weightings.
        items: ``[B, T, D]``.

    Returns:
        ``[B, N, D]`` in the type of the items.
    """
    return tf.matmul(tf.cast(weights, items.dtype), items)
