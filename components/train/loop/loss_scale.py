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
        joined = _Joined(gradients)
        if self._static:
            update(joined.apart([tensor * (1.0 / self._static) for tensor in joined.tensors]), None)
            return
        finite = agreed(tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in joined.tensors]))
        inverse = tf.where(finite, 1.0 / self.factor, 0.0)
        # Zeros where that is 0, whatever the gradient is.
        update(joined.apart([tf.math.multiply_no_nan(tensor, inverse) for tensor in joined.tensors]), finite)
        grows = finite & (self.good_steps + 1 >= GROWTH_STEPS)
        kept = tf.where(grows, self.factor * 2.0, self.factor)
        self.factor.assign(tf.where(finite, kept, tf.maximum(self.factor / 2.0, 1.0)))
        self.good_steps.assign(tf.where(finite & ~grows, self.good_steps + 1, tf.zeros([], tf.int64)))


class _Joined:
    """The numbers of gradients, those of small dense ones in one tensor.

    Attributes:
        tensors: what is small, if anything, then each of the rest.
    """

    def __init__(self, gradients: Sequence[Gradient]) -> None:
        self._gradients = gradients
        self._small = [
            not isinstance(gradient, tf.IndexedSlices) and (gradient.shape.num_elements() or _SMALL + 1) <= _SMALL
            for gradient in gradients
        ]
        small = [tf.reshape(g, [-1]) for g, is_small in zip(gradients, self._small, strict=True) if is_small]
        rest = [_values(g) for g, is_small in zip(gradients, self._small, strict=True) if not is_small]
        self._sizes = [tensor.shape[0] for tensor in small]
        self.tensors = [*([tf.concat(small, 0)] if small else []), *rest]

    def apart(self, tensors: Sequence[tf.Tensor]) -> list[Gradient]:
        """Gradients like those given, with the numbers of tensors like :attr:`tensors`."""
        rest = iter(tensors)
        small = iter(tf.split(next(rest), self._sizes) if self._sizes else [])
        return [
            tf.reshape(next(small), gradient.shape) if is_small else _like(gradient, next(rest))
            for gradient, is_small in zip(self._gradients, self._small, strict=True)
        ]


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _like(gradient: Gradient, values: tf.Tensor) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return values
