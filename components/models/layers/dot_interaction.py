"""Dot products of every pair of a sample's vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf


def dot_interaction(vectors: Sequence[tf.Tensor]) -> tf.Tensor:
    """``x_i . x_j`` for i > j, the strict lower triangle of ``X X^T`` row by row.

    The order is (1, 0), (2, 0), (2, 1), (3, 0), ...

    Args:
        vectors: F tensors ``[B, width]``.

    Returns:
        ``[B, F (F - 1) / 2]``, in the dtype of the vectors.

    Examples:
        >>> dot_interaction([tf.constant([[1.0, 2.0]]), tf.constant([[3.0, 4.0]]), tf.constant([[5.0, 6.0]])]).numpy()
        array([[11., 17., 39.]], dtype=float32)

    References:
        Naumov et al., Deep Learning Recommendation Model for Personalization and Recommendation Systems,
        https://arxiv.org/abs/1906.00091
    """
    return _lower_products(tf.stack(vectors, 1))


@tf.custom_gradient
def _lower_products(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """The products of ``[B, F, width]``.

    The upstream gradient is gathered into a symmetric matrix G, zero on the diagonal, and the result is G X. TensorFlow
    would scatter it into one triangle and multiply twice.
    """
    count = x.shape[1]
    rows, columns = np.tril_indices(count, -1)
    products = tf.reshape(tf.matmul(x, x, transpose_b=True), [-1, count * count])

    def gradient(upstream: tf.Tensor) -> tf.Tensor:
        index = np.full((count, count), len(rows))  # index of the padded zero
        index[rows, columns] = index[columns, rows] = np.arange(len(rows))
        symmetric = tf.gather(tf.pad(upstream, [[0, 0], [0, 1]]), index.reshape(-1), axis=1)
        return tf.matmul(tf.reshape(symmetric, [-1, count, count]), x)

    return tf.gather(products, rows * count + columns, axis=1), gradient
