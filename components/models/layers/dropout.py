"""Dropout with masks that depend only on seed, layer, step and rank."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import tensorflow as tf

from components.models.layers.weights import Weights

_rank = ContextVar("dropout_rank", default=0)
# The same masks on every device; XLA orders a mask's units differently and gives other masks.
_PHILOX = "philox"


@contextmanager
def masks_of(rank: int) -> Iterator[None]:
    """Functions traced within use the masks of this rank."""
    token = _rank.set(rank)
    try:
        yield
    finally:
        _rank.reset(token)


class Dropout(tf.Module):
    """Sets a random fraction ``rate`` of the units to 0 and scales the others by ``1 / (1 - rate)``.

    Masks come from a counter-based generator keyed by the seed, the layer's name, the rank and the number of earlier
    masks. Its state is equal on all ranks, so one rank's checkpoint restores the masks of all ranks.

    Args:
        weights: source of the seed and the layer's name.
        rate: fraction of units to drop, above 0 and below 1.

    References:
        Srivastava et al., Dropout, https://jmlr.org/papers/v15/srivastava14a.html
    """

    def __init__(self, weights: Weights, rate: float) -> None:
        super().__init__()
        self._rate = rate
        self.key = tf.Variable(weights.key("dropout"), trainable=False, name="dropout_key")
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="dropout_steps")

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        """Draws a mask for ``inputs``, of any shape, and applies it."""
        step = self.steps.assign_add(1)
        rank = tf.constant(_rank.get(), tf.int64)
        seed = tf.random.experimental.stateless_fold_in(self.key, rank, _PHILOX)
        seed = tf.random.experimental.stateless_fold_in(seed, step, _PHILOX)
        return tf.nn.experimental.stateless_dropout(inputs, self._rate, seed, _PHILOX)
