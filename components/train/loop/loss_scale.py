"""Dynamic loss scaling for mixed precision (Micikevicius et al., 2018, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from components.train.loop.reduction import Gradient

INITIAL = 2.0**15
GROWTH_STEPS = 2000


class LossScale(tf.Module):
    """The factor that keeps float16 gradients from underflowing.

    It halves whenever a summed gradient is not finite, and that step is skipped; it doubles after 2000 good steps in a
    row. Every rank judges the same summed gradients, so all come to the same verdict; of gradients of parts of tables,
    which differ, the ranks have to agree.

    Args:
        enabled: off, the factor stays 1 and every step is applied.
    """

    def __init__(self, enabled: bool) -> None:
        super().__init__()
        self.enabled = enabled
        self.factor = tf.Variable(INITIAL if enabled else 1.0, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="loss_scale_good_steps")

    def apply(
        self,
        gradients: Sequence[Gradient],
        update: Callable[[list[Gradient]], None],
        agreed: Callable[[tf.Tensor], tf.Tensor] = lambda finite: finite,
    ) -> None:
        """Calls ``update`` with the gradients at their true size, unless one of them is not finite.

        Args:
            gradients: scaled.
            update: takes them at their true size.
            agreed: from whether this rank's gradients are finite to whether those of all ranks are.
        """
        if not self.enabled:
            update(list(gradients))
            return
        true_size = [_times(gradient, 1 / self.factor) for gradient in gradients]
        mine = tf.reduce_all([tf.reduce_all(tf.math.is_finite(_values(gradient))) for gradient in true_size])
        finite = agreed(mine)

        def good() -> tf.Tensor:
            update(true_size)
            grow = self.good_steps + 1 >= GROWTH_STEPS
            self.factor.assign(tf.where(grow, self.factor * 2, self.factor))
            self.good_steps.assign(tf.where(grow, tf.zeros([], tf.int64), self.good_steps + 1))
            return finite

        def bad() -> tf.Tensor:
            self.factor.assign(tf.maximum(self.factor / 2, 1.0))
            self.good_steps.assign(0)
            return finite

        tf.cond(finite, good, bad)


def _values(gradient: Gradient) -> tf.Tensor:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _times(gradient: Gradient, factor: tf.Tensor) -> Gradient:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
