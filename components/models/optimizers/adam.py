"""Adam, and Adam that updates only the rows in a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from components.models.ops.rows import AdamStep, adam_all, sum_by_row
from components.models.ops.scaling import UNSCALED, Scaling
from components.models.optimizers.schedules import Rate, at
from components.models.optimizers.slots import STEPS, counter, slot

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7


class Adam(tf.Module):
    """Adam with decoupled weight decay.

        m = b1 m + (1 - b1) g
        v = b2 v + (1 - b2) g²
        w = w - decay * w - lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + 1e-7)

    Rows missing from a sparse gradient have gradient 0, so every step updates every row.

    Args:
        learning_rate: lr, a number or a schedule.
        weight_decay: decay, independent of the learning rate and its schedule.
        beta_1, beta_2: b1 and b2, decay rates of the moments.
        epsilon: added to the root of the second moment.

    References:
        Kingma and Ba, https://arxiv.org/abs/1412.6980; Loshchilov and Hutter, https://arxiv.org/abs/1711.05101
    """

    keeps_sparse = False
    takes_scaling = True

    def __init__(
        self,
        learning_rate: Rate,
        weight_decay: float = 0.0,
        name: str = "adam",
        beta_1: float = BETA_1,
        beta_2: float = BETA_2,
        epsilon: float = EPSILON,
    ) -> None:
        super().__init__(name=name)
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self._betas, self._epsilon = (beta_1, beta_2), epsilon
        self.steps = counter(STEPS)
        self.updates = counter("updates")  # of the moments
        self.moments: list[tuple[tf.Variable, tf.Variable]] = []

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """Creates the two moments of every variable."""
        with tf.init_scope():
            self.moments = [(slot(variable, "m"), slot(variable, "v")) for variable in variables]

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]], scaling: Scaling = UNSCALED) -> None:
        """Applies one step, unless ``scaling`` skips it; variables must have the same order in every call."""
        pairs = list(gradients_and_variables)
        if not self.moments:
            self.build([variable for _, variable in pairs])
        rate = at(self._learning_rate, tf.cast(self.steps, tf.float32))
        step = tf.cast(self.updates + 1, tf.float32)
        powers = tf.pow(self._betas[0], step), tf.pow(self._betas[1], step)
        by = AdamStep(1.0 - self._weight_decay, *self._betas, self._epsilon, rate, powers, scaling)
        self._update_all([(*pair, *moments) for pair, moments in zip(pairs, self.moments, strict=True)], by)
        for counted in (self.steps, self.updates):
            counted.assign_add(scaling.steps)

    def _update_all(self, updates: Sequence[tuple[Any, tf.Variable, tf.Variable, tf.Variable]], by: AdamStep) -> None:
        """Applies the step to tuples of gradient, variable and its two moments."""
        adam_all(updates, by)


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
