"""Loss scaling for mixed precision (Micikevicius et al., 2018, section 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from components.models.ops.choice import fused
from components.models.ops.scaling import UNSCALED, Scaling, all_finite
from components.train.loop.exchange import Gradient

INITIAL = 2.0**15
GROWTH_STEPS = 2000


class LossScale(tf.Module):
    """The factor that keeps float16 gradients from underflowing.

    If a summed gradient is not finite, the step is skipped and the factor halved; after 2000 consecutive finite steps
    it doubles. Every rank checks the same summed gradients and gets the same result; gradients of table shards differ
    by rank, so the ranks reduce the result.

    Args:
        enabled: if false, the factor stays 1 and every step is applied.
        static: a constant factor, with which every step is applied; 0 selects dynamic scaling.
    """

    def __init__(self, enabled: bool, static: float = 0.0) -> None:
        super().__init__()
        self.enabled, self._static = enabled, static
        self.factor = tf.Variable(INITIAL if enabled else 1.0, trainable=False, name="loss_scale")
        self.good_steps = tf.Variable(0, dtype=tf.int64, trainable=False, name="loss_scale_good_steps")

    @property
    def value(self) -> float | tf.Variable:
        return self._static if self.enabled and self._static else self.factor

    def apply(
        self,
        gradients: Sequence[Gradient],
        update: Callable[[Scaling], None],
        agreed: Callable[[tf.Tensor], tf.Tensor] = lambda finite: finite,
    ) -> None:
        """Checks the gradients, calls ``update`` and adjusts the factor.

        Args:
            agreed: reduces "this rank's gradients are finite" over all ranks, bool scalar to bool scalar.
        """
        if not self.enabled:
            update(UNSCALED)
            return
        if self._static:
            update(Scaling(tf.constant(1.0 / self._static)))
            return
        finite = agreed(all_finite(gradients))
        inverse, factor, good_steps = _adjusted(finite, tf.identity(self.factor), tf.identity(self.good_steps))
        update(Scaling(inverse, finite))
        self.factor.assign(factor)
        self.good_steps.assign(good_steps)


@fused
def _adjusted(finite: tf.Tensor, factor: tf.Tensor, good_steps: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The multiplier of this step's gradients, and the updated factor and good steps."""
    grows = finite & (good_steps + 1 >= GROWTH_STEPS)
    kept = tf.where(grows, factor * 2.0, factor)
    return (
        tf.where(finite, 1.0 / factor, 0.0),
        tf.where(finite, kept, tf.maximum(factor / 2.0, 1.0)),
        tf.where(finite & ~grows, good_steps + 1, tf.zeros([], tf.int64)),
    )
