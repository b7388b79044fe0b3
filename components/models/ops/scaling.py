"""Gradients under a loss scale: judged where they are, and brought to their true size by the update that reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from components.models.ops.choice import fused

_SMALL = 1 << 18  # numbers of a tensor that is judged with others rather than by itself


class Scaling(NamedTuple):
    """What an update does to the gradients that it reads, and whether it is one.

    A pass of its own that divides the gradients would read and write all of them once more. The verdict stays on the
    device: a condition would make the host wait for the backward pass before it can launch the update.

    Attributes:
        inverse: scalar float32, what gradients are multiplied by: 1 / loss scale, or 0 where the step is not taken.
            None leaves them as they are.
        allowed: scalar bool, whether the step is taken; None is always.
    """

    inverse: tf.Tensor | None = None
    allowed: tf.Tensor | None = None

    def true(self, gradient: tf.Tensor) -> tf.Tensor:
        """The gradient at its true size; zeros where the step is not taken, whatever the gradient is."""
        return gradient if self.inverse is None else tf.math.multiply_no_nan(gradient, self.inverse)

    def kept(self, share: float | tf.Tensor) -> float | tf.Tensor:
        """A factor of weights or state, 1 where the step is not taken."""
        return share if self.allowed is None else tf.where(self.allowed, share, 1.0)

    def taken(self, change: float | tf.Tensor) -> float | tf.Tensor:
        """A number such as the learning rate, 0 where the step is not taken."""
        return change if self.allowed is None else tf.where(self.allowed, change, 0.0)

    @property
    def steps(self) -> int | tf.Tensor:
        """How many steps this is, 1 or 0."""
        return 1 if self.allowed is None else tf.cast(self.allowed, tf.int64)


UNSCALED = Scaling()
"""True gradients, of a step that is taken."""


def all_finite(gradients: Sequence[tf.Tensor | tf.IndexedSlices]) -> tf.Tensor:
    """Whether every number of every gradient is finite, scalar bool; each is read once and nothing is copied."""
    slices = [gradient.values for gradient in gradients if isinstance(gradient, tf.IndexedSlices)]
    dense = [gradient for gradient in gradients if not isinstance(gradient, tf.IndexedSlices)]
    verdicts = [
        tf.reduce_all(tf.math.is_finite(values)) for values in slices
    ]  # as many rows as a batch happens to name
    return tf.reduce_all([*verdicts, _all_finite(dense)] if dense else verdicts)


@fused
def _all_finite(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    is_small = [(gradient.shape.num_elements() or _SMALL + 1) <= _SMALL for gradient in gradients]
    small = [tf.reshape(g, [-1]) for g, small in zip(gradients, is_small, strict=True) if small]
    large = [g for g, small in zip(gradients, is_small, strict=True) if not small]
    judged = [tf.concat(small, 0), *large] if small else large
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in judged])
