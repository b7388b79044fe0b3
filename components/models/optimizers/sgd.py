"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf


class Sgd(tf.Module):
    """``w = w - lr * decay * w - lr * g``.

    Args:
        learning_rate: lr.
        weight_decay: decay.
    """

    def __init__(self, learning_rate: float, weight_decay: float = 0.0) -> None:
        super().__init__()
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay

    def build(self, variables: Sequence[tf.Variable]) -> None:
        """There is no state."""

    def apply(self, gradients_and_variables: Iterable[tuple[Any, tf.Variable]]) -> None:
        """Takes one step."""
        for gradient, variable in gradients_and_variables:
            if self._weight_decay:
                variable.assign(variable * (1.0 - self._learning_rate * self._weight_decay))
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(self._learning_rate * gradient.values, gradient.indices))
            else:
                variable.assign_sub(self._learning_rate * gradient)
