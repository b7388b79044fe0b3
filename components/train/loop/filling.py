"""Batches of one size, for XLA, which compiles anew for every other one."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf


def filled(batch: Mapping[str, tf.Tensor], rows: int) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Fills a batch up with its own samples, which touch no row of a table that it does not touch anyway.

    Args:
        batch: by feature, ``[B]`` or ``[B, length]``; B may be 0, then the samples are zeros.
        rows: at least B.

    Returns:
        The features, ``[rows]`` or ``[rows, length]``, and float32 ``[rows]``: 1 for the batch's samples, which come
        first, and 0 for those that fill it up.
    """
    values = list(batch.values())
    if all(value.shape[0] == rows for value in values):
        return dict(batch), tf.ones([rows])
    # 64 bits: TensorFlow computes with int32 on the host.
    own, places = tf.shape(values[0], tf.int64)[0], tf.range(rows, dtype=tf.int64)

    def repeated() -> list[tf.Tensor]:
        wanted = places % tf.maximum(own, 1)
        return [tf.gather(tf.concat([v, tf.zeros([1, *v.shape[1:]], v.dtype)], 0), wanted) for v in values]

    # The host knows the size: the condition waits for nothing.
    chosen = tf.cond(own < rows, repeated, lambda: [tf.identity(value) for value in values])
    full = [tf.ensure_shape(new, [rows, *value.shape[1:]]) for new, value in zip(chosen, values, strict=True)]
    return dict(zip(batch, full, strict=True)), tf.cast(places < own, tf.float32)
