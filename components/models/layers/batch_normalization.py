"""Batch normalisation over the global batch."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.global_batch import require_whole, summed_over_ranks, this_batch
from components.models.layers.weights import Weights

# Added to the variance, as by Keras.
EPSILON = 1e-3


class BatchNormalization(tf.Module):
    """``gamma * (x - mean) / sqrt(variance + 0.001) + beta``, for each unit.

    In training, mean and (biased) variance are those of the global batch: each rank sums the counts, the values and the
    squares of its samples, without padding, and one all-reduce adds the sums up, so that the result does not depend on
    the number of ranks. Values are taken relative to the moving mean, since the difference of two large sums would
    cancel. The gradient of the all-reduce is the all-reduce of the gradients: the statistics of a batch carry the
    losses of all ranks.

    Otherwise, mean and variance are moving averages: those of step t weigh ``max(1 - momentum, 1 / t)``, so that the
    averages of a short training are not biased towards their initial values. A batch that overflows is left out.

    Args:
        weights: source of fresh weights and the layer's name; gamma starts at 1, beta at 0.
        units: size of the last axis.
        momentum: weight of the earlier steps in the moving averages.

    Examples:
        >>> normalize = BatchNormalization(Weights(1), units=1)
        >>> normalize(tf.constant([[1.0], [3.0]]), training=True).numpy().round(3)
        array([[-1.],
               [ 1.]], dtype=float32)

    References:
        Ioffe and Szegedy, Batch Normalization, https://arxiv.org/abs/1502.03167
    """

    def __init__(self, weights: Weights, units: int, momentum: float = 0.99) -> None:
        super().__init__()
        self._momentum = momentum
        self.gamma = weights.constant("gamma", (units,), 1.0)
        self.beta = weights.constant("beta", (units,))
        self._prefix = self.gamma.name.removesuffix("gamma:0")
        self.mean = tf.Variable(tf.zeros([units]), trainable=False, name=f"{self._prefix}mean")
        self.variance = tf.Variable(tf.ones([units]), trainable=False, name=f"{self._prefix}variance")
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False, name=f"{self._prefix}steps")

    def __call__(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Normalises ``[B, units]``, in the dtype of the inputs.

        Raises:
            KfrecError: XLA compiles the training of several ranks, and cannot compile an all-reduce.
        """
        x = tf.cast(inputs, tf.float32)
        mean, variance = self._moments(x) if training else (self.mean, self.variance)
        scale = self.gamma * tf.math.rsqrt(variance + EPSILON)
        return tf.cast((x - mean) * scale + self.beta, inputs.dtype)

    def _moments(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Mean and variance of the global batch, which also enter the moving averages."""
        require_whole(f"{self._prefix}moments")
        batch, origin = this_batch(), tf.identity(self.mean)
        counted = tf.ones_like(x[:, :1]) if batch.counted is None else batch.counted[:, tf.newaxis]
        apart = tf.where(counted > 0, x - origin, 0.0)
        sums = tf.concat([tf.reduce_sum(part, 0) for part in (counted, apart, apart * apart)], 0)
        if batch.summing is not None:
            sums = summed_over_ranks(sums, f"{self._prefix}moments")
        count = tf.maximum(sums[0], 1.0)
        shift, squares = tf.split(sums[1:] / count, 2)
        mean, variance = origin + shift, tf.maximum(squares - shift * shift, 0.0)
        if batch.has_statistics:
            self._average(sums[0], mean, variance)
        return mean, variance

    def _average(self, count: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> None:
        known = (count > 0) & tf.reduce_all(tf.math.is_finite(mean + variance))
        step = self.steps.assign_add(tf.cast(known, tf.int64), read_value=True)
        weight = tf.where(known, tf.maximum(1.0 - self._momentum, 1.0 / tf.cast(step, tf.float32)), 0.0)
        for average, value in ((self.mean, mean), (self.variance, variance)):
            average.assign_add(tf.math.multiply_no_nan(tf.stop_gradient(value) - average, weight))
