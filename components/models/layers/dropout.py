"""Dropout whose masks depend on the seed, the layer, the step and the rank, and on nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import tensorflow as tf

from components.models.layers.weights import Weights

_rank = ContextVar("dropout_rank", default=0)
# The same masks on every device; XLA numbers the units of a mask otherwise, and draws its own.
_PHILOX = "philox"


@contextmanager
def masks_of(rank: int) -> Iterator[None]:
    """Functions traced within draw the masks of this rank."""
    token = _rank.set(rank)
    try:
        yield
    finally:
        _rank.reset(token)


class Dropout(tf.Module):
    """Sets a random share of the units to 0 and divides the others by what is left.

    A mask is drawn from a counter-based generator keyed by the seed, the layer's name, the rank and the number of masks
    drawn before. Its state is equal on all ranks, so that a checkpoint of one rank restores the masks of all of them.

    Args:
        weights: gives the seed and the layer's name.
        rate: share of the units, above 0 and below 1.

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
