"""Adam that updates only the rows in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from components.models.ops.rows import AdamStep, sum_by_row
from components.models.optimizers.adam import Adam
from components.models.optimizers.schedules import Rate


class LazyAdam(Adam):
    """Adam whose sparse updates read and write only the rows in the gradient.

    The other rows' weights and moments do not decay, unlike in Adam's formula, so a step's cost does not depend on the
    size of the table. Dense gradients are handled as by ``Adam``.
    """

    keeps_sparse = True

    def __init__(self, learning_rate: Rate, weight_decay: float = 0.0) -> None:
        super().__init__(learning_rate, weight_decay, "lazy_adam")

    def _update_all(self, updates: Sequence[tuple[Any, tf.Variable, tf.Variable, tf.Variable]], by: AdamStep) -> None:
        super()._update_all([update for update in updates if not isinstance(update[0], tf.IndexedSlices)], by)
        by = by.if_allowed()
        for update in updates:
            if isinstance(update[0], tf.IndexedSlices):
                _update_rows(*update, by)


def _update_rows(
    gradient: tf.IndexedSlices, variable: tf.Variable, first: tf.Variable, second: tf.Variable, by: AdamStep
) -> None:
    rows, values = sum_by_row(gradient)
    values = by.scaling.true(values)
    weights, m, v = (tf.gather(table, rows) for table in (variable, first, second))
    m = by.beta_1 * m + (1.0 - by.beta_1) * values
    v = by.beta_2 * v + (1.0 - by.beta_2) * tf.square(values)
    corrected = by.rate * tf.sqrt(1.0 - by.powers[1]) / (1.0 - by.powers[0])
    decayed = weights * by.keep_weights
    for table, new in ((first, m), (second, v), (variable, decayed - corrected * m / (tf.sqrt(v) + by.epsilon))):
        table.scatter_update(tf.IndexedSlices(new, rows))
