"""The state that an optimizer keeps per variable."""

from __future__ import annotations

import tensorflow as tf

from components.models.names import name_of
from components.models.tables.placement import mark, sharding_of

# Name of the counter that a schedule follows; a training that continues another one's moments starts it anew.
STEPS = "steps"


def counter(name: str) -> tf.Variable:
    """A number of steps, from 0."""
    return tf.Variable(0, dtype=tf.int64, trainable=False, name=name)


def slot(variable: tf.Variable, name: str, value: float = 0.0) -> tf.Variable:
    """A variable of the same shape, such as a moment, on the same device and with the same sharding.

    Args:
        variable: the weights, or a table shard.
        name: of this state among those of the variable, such as "m".

    Returns:
        The variable, called ``<variable>/<name>``.
    """
    with tf.device(variable.device):
        made = tf.Variable(tf.fill(variable.shape, value), trainable=False, name=f"{name_of(variable)}/{name}")
    sharding = sharding_of(variable)
    if sharding is not None:
        mark(made, sharding)
    return made
