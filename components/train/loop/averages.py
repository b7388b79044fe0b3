"""Averaged weights, which score higher and vary less between seeds than the last step's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf

from components.models.optimizers.slots import slot

# Name of a variable's average among its state.
AVERAGE = "average"


class Averages(tf.Module):
    """The exponential moving average of weights, over the steps of a training.

        a_t = (1 - d) / (1 - d^t) * sum over s of d^(t - s) w_s

    where ``w_s`` are the weights after step s; the division by ``1 - d^t`` corrects the bias of the first steps. A step
    reads and writes every average, including rows without a gradient.

    Args:
        variables: trainable weights; every method takes them in the same order.
        decay: d, at least 0 and below 1; 0 disables averaging.

    References:
        Polyak and Juditsky, https://doi.org/10.1137/0330046; the average and its correction as in Kingma and Ba,
        section 7.2 of https://arxiv.org/abs/1412.6980
    """

    def __init__(self, variables: Sequence[tf.Variable], decay: float) -> None:
        super().__init__()
        self._decay = decay
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="averaged_steps")
        self.values = [slot(variable, AVERAGE) for variable in variables] if decay else []

    def update(self, variables: Sequence[tf.Variable]) -> None:
        """Adds the weights after a step."""
        if not self._decay:
            return
        step = tf.cast(self.steps.assign_add(1), tf.float32)
        share = (1.0 - self._decay) / (1.0 - tf.pow(self._decay, step))
        for average, variable in zip(self.values, variables, strict=True):
            average.assign_sub(share * (average - variable))

    @contextmanager
    def applied(self, variables: Sequence[tf.Variable]) -> Iterator[None]:
        """Swaps variables and averages within the context."""
        self._swap(variables)
        try:
            yield
        finally:
            self._swap(variables)

    def assign_to(self, variables: Sequence[tf.Variable]) -> None:
        for average, variable in zip(self.values, variables, strict=bool(self.values)):
            variable.assign(average)

    def _swap(self, variables: Sequence[tf.Variable]) -> None:
        for average, variable in zip(self.values, variables, strict=bool(self.values)):
            weights = tf.identity(variable)
            variable.assign(average)
            average.assign(weights)
