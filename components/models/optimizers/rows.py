"""Sparse gradients by row."""

from __future__ import annotations

import tensorflow as tf

from components.models.kernels import names
from components.models.kernels import rows as kernels


def sum_by_row(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
    """Adds up what a sparse gradient says about the same row.

    Returns:
        The distinct rows ``[R]`` and their gradients ``[R, ...]``.
    """
    if kernels.fits(gradient.values) and gradient.shape[0] is not None:
        rows, (positions,) = names.distinct([gradient.indices], gradient.shape[0])
        return rows, kernels.sums(gradient.values, positions, tf.size(rows))
    rows, positions = tf.unique(gradient.indices)
    return rows, tf.math.unsorted_segment_sum(gradient.values, positions, tf.size(rows))
