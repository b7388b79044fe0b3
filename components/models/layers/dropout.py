"""Dropout with masks that depend only on seed, layer, step and sample."""

from __future__ import annotations

import tensorflow as tf

from components.models.draws import bits
from components.models.layers.weights import Weights
from components.models.ops.choice import fused


class Dropout(tf.Module):
    """Sets a random fraction ``rate`` of the units to 0 and scales the others by ``1 / (1 - rate)``.

    A sample's mask does not depend on the batch or the rank that it is in, nor on earlier masks; see
    ``components.models.draws``. Outside of training, or with a rate of 0, the layer returns its input. It has no
    variables.

    Args:
        weights: source of the layer's name.
        rate: fraction of units to drop, at least 0 and below 1.

    References:
        Srivastava et al., Dropout, https://jmlr.org/papers/v15/srivastava14a.html
    """

    def __init__(self, weights: Weights, rate: float) -> None:
        super().__init__()
        self._rate, self._stream = rate, weights.path("dropout")

    def __call__(self, inputs: tf.Tensor, training: bool = True) -> tf.Tensor:
        """Draws a mask for ``inputs``, ``[B, ...]``, and applies it.

        Raises:
            KfrecError: drops units outside of a training step.
        """
        if not (training and self._rate):
            return inputs
        shape = [tf.shape(inputs)[axis] if size is None else size for axis, size in enumerate(inputs.shape)]
        kept = _kept(bits(self._stream, shape), round(self._rate * 2**32))
        return tf.where(kept, inputs * tf.cast(1.0 / (1.0 - self._rate), inputs.dtype), tf.zeros_like(inputs))


@fused
def _kept(drawn: tf.Tensor, dropped: int) -> tf.Tensor:
    return drawn >= tf.constant(dropped, tf.uint32)
