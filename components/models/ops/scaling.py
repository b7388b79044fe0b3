"""Gradients under a loss scale: checked on the device, and unscaled within the update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from components.models.ops.choice import fused

_SMALL = 1 << 18  # largest tensor, in values, that is checked together with others


class Scaling(NamedTuple):
    """How an update unscales its gradients, and whether it is skipped.

    A separate unscaling pass would read and write all gradients once more. ``allowed`` stays on the device: a condition
    would make the host wait for the backward pass before it launches the update.

    Attributes:
        inverse: scalar float32 factor of the gradients: 1 / loss scale, or 0 for a skipped step. None means unscaled.
        allowed: scalar bool, false for a skipped step; None means true.
    """

    inverse: tf.Tensor | None = None
    allowed: tf.Tensor | None = None

    def true(self, gradient: tf.Tensor) -> tf.Tensor:
        """The unscaled gradient; zeros for a skipped step, even if the gradient is not finite."""
        return gradient if self.inverse is None else tf.math.multiply_no_nan(gradient, self.inverse)

    def kept(self, share: float | tf.Tensor) -> float | tf.Tensor:
        """A factor of weights or state; 1 for a skipped step."""
        return share if self.allowed is None else tf.where(self.allowed, share, 1.0)

    def taken(self, change: float | tf.Tensor) -> float | tf.Tensor:
        """A number such as the learning rate; 0 for a skipped step."""
        return change if self.allowed is None else tf.where(self.allowed, change, 0.0)

    def clipped(self, norm: tf.Tensor, largest: float) -> Scaling:
        """This scaling, with gradients of a larger norm scaled down to ``largest``.

        Args:
            norm: of all gradients as they are, float32.
        """
        inverse = tf.constant(1.0) if self.inverse is None else self.inverse
        factor = largest / tf.maximum(norm * inverse, largest)
        return self._replace(inverse=inverse * tf.where(tf.math.is_finite(factor), factor, 1.0))

    @property
    def steps(self) -> int | tf.Tensor:
        """Increment of the step counter, 1 or 0."""
        return 1 if self.allowed is None else tf.cast(self.allowed, tf.int64)


UNSCALED = Scaling()
"""Unscaled gradients of a step that is not skipped."""


def all_finite(gradients: Sequence[tf.Tensor | tf.IndexedSlices]) -> tf.Tensor:
    """Whether all gradients are finite, scalar bool; reads each value once."""
    slices = [gradient.values for gradient in gradients if isinstance(gradient, tf.IndexedSlices)]
    dense = [gradient for gradient in gradients if not isinstance(gradient, tf.IndexedSlices)]
    verdicts = [tf.reduce_all(tf.math.is_finite(values)) for values in slices]  # dynamic number of rows
    return tf.reduce_all([*verdicts, _all_finite(dense)] if dense else verdicts)


@fused
def _all_finite(gradients: Sequence[tf.Tensor]) -> tf.Tensor:
    is_small = [(gradient.shape.num_elements() or _SMALL + 1) <= _SMALL for gradient in gradients]
    small = [tf.reshape(g, [-1]) for g, small in zip(gradients, is_small, strict=True) if small]
    large = [g for g, small in zip(gradients, is_small, strict=True) if not small]
    arrays = [tf.concat(small, 0), *large] if small else large
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(gradient)) for gradient in arrays])
