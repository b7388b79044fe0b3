"""Sparse gradients by row."""

from __future__ import annotations

import tensorflow as tf


def sum_by_row(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds up what a sparse gradient says about the same row.

    Returns:
        The distinct rows ``[R]`` and their gradients ``[R, ...]``.
    """
    rows, positions = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))
