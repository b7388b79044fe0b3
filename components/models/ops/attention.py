"""Attention of a target item over a history: dot products, masked softmax, the k best positions."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from components.models.ops.choice import fused_with_gradient, operation

FURTHEST = 70.0
"""How far below the best score of a sample a score may lie for its item to have attention.

``e**-70`` is 4e-31. It changes no float32 sum, and divided by the sum over 30 million items it is still above 1.2e-38,
the smallest normal float. Whether an item has attention therefore does not depend on how a processor's vector library
computes exponentials near that float, or on whether smaller ones are flushed to 0.
"""
# Far below any score, and finite, so that a history of nothing but padding has no infinities to subtract.
_NEVER = -1e9


@operation(gpu="attention.dot_scores")
def dot_scores(items: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """``items · target`` at every position.

    Args:
        items: ``[B, T, D]``.
        target: ``[B, D]``.

    Returns:
        float32 ``[B, T]``.
    """
    # A row times a matrix: as a matrix times a column it takes up to twice as long.
    scores = tf.matmul(target[:, tf.newaxis], items, transpose_b=True)
    return tf.cast(tf.squeeze(scores, 1), tf.float32)


@fused_with_gradient
def masked_softmax(scores: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Softmax over the positions that count: those of the mask whose score is at most FURTHEST below the best of them.

    Args:
        scores: ``[B, T]``.
        mask: bool ``[B, T]``.

    Returns:
        float32 ``[B, T]``: exactly 0 at positions that do not count, and a sum of 1 over the rest. A sample with no
        position gets zeros, and no gradient. A score that is no number has an attention of nan.
    """
    scores = tf.cast(scores, tf.float32)
    best = tf.reduce_max(tf.where(mask, scores, scores.dtype.min), -1, keepdims=True)
    far = scores < best - FURTHEST  # false of nan, which must not be hidden
    ones = tf.cast(mask & ~far, tf.float32)
    return tf.nn.softmax(scores + (1.0 - ones) * _NEVER) * ones


@operation(gpu="attention.top_k_mask")
def top_k_mask(scores: tf.Tensor, k: int) -> tf.Tensor:
    """Marks the k highest scores that are above 0; of equal scores the earlier positions go first.

    A sum over the k best items is a sum over all items under this mask: nothing needs to be gathered or copied.

    Args:
        scores: ``[B, T]``; T may be unknown until it is computed.
        k: how many to mark; T where that is less.

    Returns:
        bool ``[B, T]``.
    """
    positive = scores > 0
    if scores.shape[-1] is not None and scores.shape[-1] <= k:
        return positive
    length = tf.shape(scores)[-1]
    # The k-th highest is the lowest but T - k; it is looked for from the end that is nearer.
    lower = tf.maximum(length - k + 1, 1)
    end = tf.where(k < lower, 1.0, -1.0)
    threshold = end * tf.reduce_min(tf.math.top_k(end * scores, tf.minimum(k, lower), sorted=False).values, -1, True)
    above, level = scores > threshold, scores == threshold
    # Counted in float32: TensorFlow computes with int32 on the host even where a GPU does the rest.
    room = k - tf.reduce_sum(tf.cast(above, tf.float32), -1, keepdims=True)
    # Counting by a product takes a third of the time of tf.cumsum.
    upper = tf.linalg.band_part(tf.ones([length, length]), 0, -1)
    first = tf.matmul(tf.cast(level, tf.float32), upper) <= room
    return positive & (above | (level & first))


def attend(items: tf.Tensor, target: tf.Tensor, weigh: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Weighted sums over a history, with weights made of its scores against the target.

    The history is by far the largest tensor of a batch, so its gradient, which has a part from the scores and one from
    the sums, is written once: both parts are one product. Weights are small beside it; the backward pass makes them
    again.

    Args:
        items: ``[B, T, D]``.
        target: ``[B, D]``.
        weigh: from :func:`dot_scores` to N weightings, float32 ``[B, N, T]``.

    Returns:
        ``[B, N, D]`` in the type of the items.
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
    """The scores ``[B, T]`` and the sums of :func:`attend`."""
    scores = dot_scores(items, target)
    return scores, pool(weigh(scores), items)


def gradients_of_attention(
    items: tf.Tensor,
    target: tf.Tensor,
    scores: tf.Tensor,
    upstream: tf.Tensor,
    weigh: Callable[[tf.Tensor], tf.Tensor],
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gradients of :func:`attend`.

    Returns:
        Two factors, ``[B, N + 1, T]`` and ``[B, N + 1, D]``, whose products, added up over N + 1, are the gradient of
        the items; and the gradient of the target.
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
        weights: ``[B, N, T]``, N different weightings.
        items: ``[B, T, D]``.

    Returns:
        ``[B, N, D]`` in the type of the items.
    """
    return tf.matmul(tf.cast(weights, items.dtype), items)


@operation(gpu="attention.weighted_sum")
def weighted_sum(weights: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
    """One weighted sum over a history.

    Args:
        weights: ``[B, T]``.
        items: ``[B, T, D]``.

    Returns:
        ``[B, D]`` in the type of the items.
    """
    return tf.squeeze(pool(weights[:, tf.newaxis], items), 1)
