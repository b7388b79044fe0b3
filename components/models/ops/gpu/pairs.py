"""A small network that scores pairs, on a GPU."""

from __future__ import annotations

import tensorflow as tf

from components.models.ops.dense import project


def score_pairs(
    x: tf.Tensor, y: tf.Tensor, share: tf.Tensor, of_x: tf.Tensor, of_y: tf.Tensor, *layers: tf.Tensor
) -> tf.Tensor:
    """See :func:`components.models.ops.pairs.score_pairs`.

    A share that is a bias is added to the product with x, which is once there for all y.
    """
    steps = y.shape[1]
    read = x if x.shape[0] == steps else tf.split(x, [steps, -1])[0]
    if share.shape.rank == 1:
        hidden = project(y, of_y) + project(read, of_x, share)
    else:
        hidden = project(y, of_y) + (project(read, of_x) + tf.cast(share, x.dtype))
    rows = tf.reshape(hidden, [-1, of_x.shape[-1]])
    for kernel, bias in zip(layers[::2], layers[1::2], strict=True):
        rows = project(tf.sigmoid(rows), kernel, bias)
    return tf.cast(tf.reshape(rows, tf.shape(y)[:-1]), tf.float32)
