"""Attention of a target item over a history: dot products, masked softmax, top-k mask."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from components.models.ops.choice import operation

FURTHEST = 70.0
"""Largest distance of a score from its sample's maximum at which attention is not 0.

``e**-70`` is 4e-31. It changes no float32 sum, and divided by the sum over 30 million items it still exceeds 1.2e-38,
the smallest normal float. Whether attention is 0 therefore does not depend on a vector library's accuracy near that
float, or on flushing denormals to 0.
"""
# Far below any score, and finite, so that a history of only padding subtracts no infinities.
_NEVER = -1e9


@operation()
def dot_scores(items: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """``items · target`` at every position.

    Args:
        items: ``[B, T, D]``; or of one user for all targets, with a static batch of 1.
        target: ``[B, D]``.

    Returns:
        float32 ``[B, T]``.
    """
    if items.shape[0] == 1:
        return tf.cast(tf.matmul(target, tf.squeeze(items, 0), transpose_b=True), tf.float32)
    # Row vector times matrix: matrix times column vector takes up to twice as long.
    scores = tf.matmul(target[:, tf.newaxis], items, transpose_b=True)
    return tf.cast(tf.squeeze(scores, 1), tf.float32)


def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the valid positions: in the mask, and at most FURTHEST below the highest score in the mask.

    Args:
        scores: ``[B, T]``.
        mask: bool ``[B, T]``.

    Returns:
        float32 ``[B, T]``: exactly 0 at other positions; sums to 1. A sample without valid positions gets zeros, and no
        gradient. A nan score gives nan.
    """
    scores = tf.cast(scores, tf.float32)
    best = tf.reduce_max(tf.where(mask, scores, scores.dtype.min), -1, keepdims=True)
    far = scores < best - FURTHEST  # false for nan, which must propagate
    ones = tf.cast(mask & ~far, tf.float32)
    return tf.nn.softmax(scores + (1.0 - ones) * _NEVER) * ones


@operation()
def top_k_mask(scores: tf.Tensor, k: int) -> tf.Tensor:
    """Marks the k highest scores above 0; ties go to the earlier position.

    Under this mask, a sum over the k best items is a sum over all items, without a gather.

    Args:
        scores: ``[B, T]``; T may be dynamic.
        k: number of positions to mark, at most T.

    Returns:
        bool ``[B, T]``.
    """
    positive = scores > 0
    if scores.shape[-1] is None:
        return tf.cond(tf.shape(scores)[-1] <= k, lambda: positive, lambda: positive & _highest(scores, k))
    return positive if scores.shape[-1] <= k else positive & _highest(scores, k)


def _highest(scores: tf.Tensor, k: int) -> tf.Tensor:
    """Marks the k highest scores ``[B, T]``, k < T; ties go to the earlier position."""
    length = tf.shape(scores)[-1]
    # The k-th highest is the (T - k + 1)-th lowest; top_k runs from the nearer end.
    lower = length - k + 1
    end = tf.where(k < lower, 1.0, -1.0)
    threshold = end * tf.reduce_min(tf.math.top_k(end * scores, tf.minimum(k, lower), sorted=False).values, -1, True)
    above, level = scores > threshold, scores == threshold
    # Counts in float32: TensorFlow places int32 operations on the host.
    room = k - tf.reduce_sum(tf.cast(above, tf.float32), -1, keepdims=True)
    # A matrix product takes a third of the time of tf.cumsum.
    upper = tf.linalg.band_part(tf.ones([length, length]), 0, -1)
    first = tf.matmul(tf.cast(level, tf.float32), upper) <= room
    return above | (level & first)


def attend(items: tf.Tensor, target: tf.Tensor, weigh: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Weighted sums over a history, with weights computed from its scores against the target.

    The history is by far the largest tensor of a batch. Its gradient, the sum of a part from the scores and one from
    the sums, is therefore one product and written once. The backward pass recomputes the weights, which are small.

    Args:
        items: ``[B, T, D]``.
        target: ``[B, D]``.
        weigh: maps ``dot_scores`` to N weightings, float32 ``[B, N, T]``.

    Returns:
        ``[B, N, D]`` in the dtype of the items.
    """

    @tf.custom_gradient
    def sums(items: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
        scores, result = attended(items, target, weigh)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            with tf.name_scope("attend_gradient"):
                left, right, of_target = gradients_of_attention(items, target, scores, upstream, weigh)
                return tf.matmul(left, right, transpose_a=True), of_target

        return result, gradient

    return sums(items, target)


def attended(
    items: tf.Tensor, target: tf.Tensor, weigh: Callable[[tf.Tensor], tf.Tensor]
) -> tuple[tf.Tensor, tf.Tensor]:
    """The scores ``[B, T]`` and the result of ``attend``."""
    scores = dot_scores(items, target)
    return scores, pool(weigh(scores), items)


def gradients_of_attention(
    items: tf.Tensor,
    target: tf.Tensor,
    scores: tf.Tensor,
    upstream: tf.Tensor,
    weigh: Callable[[tf.Tensor], tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gradients of ``attend``.

    Returns:
        Two factors, ``[B, N + 1, T]`` and ``[B, N + 1, D]``: their product, contracted over N + 1, is the items'
        gradient; and the target's gradient.
    """
    with tf.GradientTape() as tape:
        tape.watch(scores)
        weights = weigh(scores)
    of_weights = tf.cast(tf.matmul(upstream, items, transpose_b=True), tf.float32)
    of_scores = tape.gradient(weights, scores, of_weights)
    left = tf.cast(tf.concat([weights, of_scores[:, tf.newaxis]], 1), items.dtype)
    right = tf.concat([upstream, target[:, tf.newaxis]], 1)
    return left, right, weighted_sum(of_scores, items)


def pool(weights: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
    """Weighted sums over a history.

    Args:
        weights: ``[B, N, T]``, N weightings.
        items: ``[B, T, D]``; or of one user for all weights, with a static batch of 1.

    Returns:
        ``[B, N, D]`` in the dtype of the items.
    """
    if items.shape[0] == 1:
        shape = tf.shape(weights)
        rows = tf.reshape(tf.cast(weights, items.dtype), [-1, shape[2]])
        return tf.reshape(tf.matmul(rows, tf.squeeze(items, 0)), [shape[0], weights.shape[1], items.shape[2]])
    return tf.matmul(tf.cast(weights, items.dtype), items)


@operation()
def weighted_sum(weights: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
    """One weighted sum over a history.

    Args:
        weights: ``[B, T]``.
        items: ``[B, T, D]``.

    Returns:
        ``[B, D]`` in the dtype of the items.
    """
    return tf.squeeze(pool(weights[:, tf.newaxis], items), 1)
