"""Attention under XLA: fused element-wise products and reductions, instead of vector-matrix products and a sort.

Without XLA the intermediate products would be in memory, which costs more than a batched matmul: the definitions run.
"""

from __future__ import annotations

import tensorflow as tf

from components.models.ops.choice import is_compiled


def dot_scores(items: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
    """See :func:`components.models.ops.attention.dot_scores`; accumulates in float32."""
    if not is_compiled():
        return NotImplemented
    return tf.reduce_sum(tf.cast(items * tf.expand_dims(target, 1), tf.float32), -1)


def weighted_sum(weights: tf.Tensor, items: tf.Tensor) -> tf.Tensor:
    """See :func:`components.models.ops.attention.weighted_sum`; accumulates in float32."""
    if not is_compiled():
        return NotImplemented
    products = tf.expand_dims(tf.cast(weights, items.dtype), -1) * items
    return tf.cast(tf.reduce_sum(tf.cast(products, tf.float32), 1), items.dtype)


def top_k_mask(scores: tf.Tensor, k: int) -> tf.Tensor:
    """See :func:`components.models.ops.attention.top_k_mask`.

    A position is marked if fewer than k others precede it. Comparing all pairs of 90 positions is cheaper than a
    segmented sort's passes over its keys, and none of the comparisons is in memory.
    """
    length = scores.shape[-1]
    if not is_compiled() or length is None:
        return NotImplemented
    other, own = tf.expand_dims(scores, 1), tf.expand_dims(scores, 2)
    positions = tf.range(length)
    is_earlier = positions[tf.newaxis, :] < positions[:, tf.newaxis]
    before = (other > own) | ((other == own) & is_earlier)
    return (scores > 0) & (tf.reduce_sum(tf.cast(before, tf.float32), -1) < k)
