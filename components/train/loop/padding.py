"""Pads batches to a fixed size, because XLA recompiles for every batch size."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf


def padded(batch: Mapping[str, tf.Tensor], rows: int) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
    """Pads a batch with repetitions of its own samples, which look up no additional rows.

    Args:
        batch: by feature, ``[B]`` or ``[B, length]``; if B is 0, the padding is zeros.
        rows: at least B.

    Returns:
        The features, ``[rows]`` or ``[rows, length]``, and a float32 mask ``[rows]``: 1 for the batch's samples, which
        come first, and 0 for padding.
    """
    values = list(batch.values())
    if all(value.shape[0] == rows for value in values):
        return dict(batch), tf.ones([rows])
    # int64: TensorFlow places int32 operations on the host.
    own, positions = tf.shape(values[0], tf.int64)[0], tf.range(rows, dtype=tf.int64)

    def repeated() -> list[tf.Tensor]:
        wanted = positions % tf.maximum(own, 1)
        return [tf.gather(tf.concat([v, tf.zeros([1, *v.shape[1:]], v.dtype)], 0), wanted) for v in values]

    # The shape is in host memory, so the condition does not synchronize with the device.
    chosen = tf.cond(own < rows, repeated, lambda: [tf.identity(value) for value in values])
    full = [tf.ensure_shape(new, [rows, *value.shape[1:]]) for new, value in zip(chosen, values, strict=True)]
    return dict(zip(batch, full, strict=True)), tf.cast(positions < own, tf.float32)
