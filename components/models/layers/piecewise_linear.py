"""Piecewise-linear encoding of quantiles."""

from __future__ import annotations

import tensorflow as tf

from components.contract import PIECES


def piecewise_linear(quantiles: tf.Tensor) -> tf.Tensor:
    """``min(max(32 q - t, 0), 1)`` for t = 0 ... 31 and each quantile q.

    A linear function of the pieces is a piecewise linear function of q, whose steps are as narrow as a 32nd of the
    training rows, however long the tails of the numbers are.

    Args:
        quantiles: float ``[B, F]``, from 0 to 1.

    Returns:
        ``[B, 32 F]``, in the dtype of the quantiles.

    Examples:
        >>> piecewise_linear(tf.constant([[1.5 / 32]]))[0, :3].numpy()
        array([1. , 0.5, 0. ], dtype=float32)

    References:
        Gorishniy et al., On Embeddings for Numerical Features in Tabular Deep Learning,
        https://arxiv.org/abs/2203.05556
    """
    pieces = tf.range(PIECES, dtype=quantiles.dtype)
    encoded = tf.clip_by_value(PIECES * quantiles[..., tf.newaxis] - pieces, 0, 1)
    return tf.reshape(encoded, [-1, PIECES * quantiles.shape[1]])
