"""The state that an optimizer keeps of a variable."""

from __future__ import annotations

import tensorflow as tf

from components.models.tables.placement import mark, sharding_of


def slot(variable: tf.Variable, value: float = 0.0) -> tf.Variable:
    """A value for each of a variable's, such as a moment, where the variable is: on its device and its rank.

    Args:
        variable: the weights, or a part of a table.
        value: the initial one.
    """
    with tf.device(variable.device):
        made = tf.Variable(tf.fill(variable.shape, value), trainable=False)
    sharding = sharding_of(variable)
    if sharding is not None:
        mark(made, sharding)
    return made
