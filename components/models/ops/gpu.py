"""The GPU back end of the look-up, with the signature of its definition and its results up to the summation order.

Rows are gathered in the compute dtype, and gradients scatter-added per look-up. Under XLA, element-wise operations
fuse; without it, each launches few, large operations.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from components.models.ops.rows import may_be_dense
from components.models.tables.placement import sharding_of


def look_up(table: tf.Variable, rows: tf.Tensor, dtype: tf.DType = tf.float32, has_padding: bool = False) -> tf.Tensor:
    """See ``components.models.ops.rows.look_up``.

    A half-precision copy of the table is small compared to the gathered rows. Each look-up scatter-adds its gradient
    into a separate dense table, which is smaller than a list of all look-ups' rows. Padding, by far the most frequent
    row, gets a negative index and is skipped, which avoids contention of atomic adds.
    """
    if sharding_of(table) is not None:
        return NotImplemented
    is_dense = may_be_dense(table)
    height, width = table.shape

    @tf.custom_gradient
    def looked_up(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor | tf.IndexedSlices]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor | tf.IndexedSlices:
            with tf.name_scope("look_up_gradient"):
                if is_dense:
                    return summed(upstream, rows, height, has_padding)
                by_row = tf.cast(tf.reshape(upstream, [-1, width]), tf.float32)
                return tf.IndexedSlices(by_row, tf.reshape(rows, [-1]), tf.constant([height, width], rows.dtype))

        return gathered(values, rows, dtype), gradient

    return looked_up(tf.convert_to_tensor(table))


def gathered(values: tf.Tensor, rows: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Gathers rows ``[..., F]`` of a table, concatenated to ``[..., F * width]``."""
    rows_read = tf.gather(tf.cast(values, dtype), rows)
    return tf.reshape(rows_read, tf.concat([tf.shape(rows)[:-1], [rows.shape[-1] * values.shape[-1]]], 0))


def summed(gradients: tf.Tensor, rows: tf.Tensor, height: int, has_padding: bool) -> tf.Tensor:
    """Scatter-adds gradients ``[..., F * width]`` by rows ``[..., F]``; float32 ``[height, width]``."""
    by_row = tf.cast(tf.reshape(gradients, [-1, gradients.shape[-1] // rows.shape[-1]]), tf.float32)
    counted = tf.where(rows[..., :1] > 0, rows, -tf.ones_like(rows)) if has_padding else rows
    return tf.math.unsorted_segment_sum(by_row, tf.reshape(counted, [-1]), height)
