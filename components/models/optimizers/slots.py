"""The state that an optimizer keeps of a variable."""

from __future__ import annotations

import tensorflow as tf

from components.models.tables.placement import part_like


def slot(variable: tf.Variable, value: float = 0.0) -> tf.Variable:
    """A value for each of a variable's, such as a moment, where the variable is: on its device and its rank.

    Args:
        variable: the weights, or a part of a table.
        value: the initial one.
    """
    return part_like(variable, lambda: tf.Variable(tf.fill(variable.shape, value), trainable=False))
