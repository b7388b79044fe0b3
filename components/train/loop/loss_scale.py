"""Loss scaling for mixed precision (Micikevicius et al., 2018, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from components.train.loop.reduction import Gradient

INITIAL = 2.0**15
GROWTH_STEPS = 2000
_SMALL = 1 << 20  # numbers of a tensor that is copied rather than looked at by itself


class LossScale(tf.Module):
    """The factor that keeps float16 gradients from underflowing.

    It halves whenever a summed gradient is not finite, and that step is skipped; it doubles after 2000 good steps in a
    row. Every rank judges the same summed gradients, so all come to the same verdict; of gradients of parts of tables,
    which differ, the ranks have to agree.

    Args:
        enabled: off, the factor stays 1 and every step is applied.
        static: a factor that never changes, with which every step is applied; 0 adjusts it as described.
    """

    def __init__(self, enabled: bool, static: float = 0.0) -> None:
        super().__init__()
        self.enabled, self._static = enabled, static
        self.factor = tf.Variable(INITIAL if enabled else 1.0, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="loss_scale_good_steps")

    @property
    def value(self) -> float | tf.Variable:
        """What the loss is multiplied by."""
        return self._static if self.enabled and self._static else self.factor

    def apply(
        self,
        gradients: Sequence[Gradient],
        update: Callable[[list[Gradient], tf.Tensor | None], None],
        agreed: Callable[[tf.Tensor], tf.Tensor] = lambda finite: finite,
    ) -> None:
        """Calls ``update`` with the gradients at their true size, and whether the step may be taken.

        The verdict stays on the device: a condition would make the host wait for the backward pass before it can launch
        the update. Where a gradient is not finite, all of them are passed on as zeros.

        Args:
            gradients: scaled.
            update: takes them at their true size, and the verdict, or None where every step is taken.
            agreed: from whether this rank's gradients are finite to whether those of all ranks are.
        """
        if not self.enabled:
            update(list(gradients), None)
            return
        if self._static:
            update([_times(gradient, tf.constant(1.0 / self._static)) for gradient in gradients], None)
            return
        finite = agreed(_are_finite([_values(gradient) for gradient in gradients]))
        inverse = tf.where(finite, 1.0 / self.factor, 0.0)
        update([_times(gradient, inverse) for gradient in gradients], finite)
        grows = finite & (self.good_steps + 1 >= GROWTH_STEPS)
        kept = tf.where(grows, self.factor * 2.0, self.factor)
        self.factor.assign(tf.where(finite, kept, tf.maximum(self.factor / 2.0, 1.0)))
        self.good_steps.assign(tf.where(finite & ~grows, self.good_steps + 1, tf.zeros([], tf.int64)))


def _are_finite(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """Whether every number is finite; those of small tensors are looked at together."""
    small = [tensor for tensor in values if (tensor.shape.num_elements() or _SMALL + 1) <= _SMALL]
    rest = [tensor for tensor in values if not any(tensor is other for other in small)]
    joined = [tf.concat([tf.reshape(tensor, [-1]) for tensor in small], 0)] if small else []
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in [*joined, *rest]])


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _times(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    """The gradient times a factor; zeros where that is 0, whatever the gradient is."""
    if isinstance(gradient, tf.IndexedSlices):
        values = tf.math.multiply_no_nan(gradient.values, factor)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return tf.math.multiply_no_nan(gradient, factor)
