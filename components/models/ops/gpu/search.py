"""SIM's search on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from components.models.ops.attention import attended, gradients_of_attention
from components.models.ops.choice import fused
from components.models.ops.gpu.rows import gathered, summed
from components.models.ops.rows import may_be_dense
from components.models.ops.search import weighing
from components.models.tables.placement import sharding_of


def search(
    table: tf.Variable, rows: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, k: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """See :func:`components.models.ops.search.search`.

    The history's gradient, as large as the history, is never in memory: it is scatter-added by row as it is computed.
    """
    if sharding_of(table) is not None or not may_be_dense(table):
        return NotImplemented
    height = table.shape[0]

    @fused
    def forward(items: tf.Tensor, mask: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return attended(items, target, weighing(mask, k))

    @fused
    def backward(
        items: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, scores: tf.Tensor, upstream: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        left, right, of_target = gradients_of_attention(items, target, scores, upstream, weighing(mask, k))
        pairs = zip(tf.unstack(left, axis=1), tf.unstack(right, axis=1), strict=True)
        of_items = tf.add_n([weight[..., tf.newaxis] * vector[:, tf.newaxis] for weight, vector in pairs])
        return summed(of_items, rows, height, has_padding=True), of_target

    @tf.custom_gradient
    def sums(values: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, ...]]]:
        items = gathered(values, rows, target.dtype)
        scores, result = forward(items, mask, target)

        def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            with tf.name_scope("search_gradient"):
                return backward(items, mask, target, scores, upstream)

        return result, gradient

    attention, best, mean = tf.unstack(sums(tf.convert_to_tensor(table), target), axis=1)
    return attention, best, mean
