"""The state that an optimizer keeps per variable."""

from __future__ import annotations

import tensorflow as tf

from components.models.tables.placement import mark, sharding_of


def slot(variable: tf.Variable, value: float = 0.0) -> tf.Variable:
    """A variable of the same shape, such as a moment, on the same device and with the same sharding.

    Args:
        variable: the weights, or a table shard.
        value: initial value.
    """
    with tf.device(variable.device):
        made = tf.Variable(tf.fill(variable.shape, value), trainable=False)
    sharding = sharding_of(variable)
    if sharding is not None:
        mark(made, sharding)
    return made
