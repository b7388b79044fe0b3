"""DIN's local activation unit: the relevance of a history item to the target."""

from __future__ import annotations

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.weights import Weights
from components.models.ops.dense import project, scaled, score_pairs

FIRST, SECOND = 80, 40


class ActivationUnit(tf.Module):
    """An MLP 80-40-1 with sigmoids over ``[item, target, item - target, item * target]``.

    Its first layer is linear in the four parts, so the target's share is computed once per sample, not per position,
    and nothing is tiled or concatenated:

        W1 i + W2 t + W3 (i - t) + W4 (i * t)  =  (W1 + W3) i + (W2 - W3) t + W4 (i * t)

    It is linear in the target, too. For the items of one user, which all targets share, the layers of all items are one
    product with the targets:

        (W1 + W3) i + (W2 - W3 + W4 diag(i)) t

    Args:
        width: size of an item and of the target.

    References:
        Zhou et al., Deep Interest Network, https://arxiv.org/abs/1706.06978
    """

    def __init__(self, weights: Weights, width: int) -> None:
        super().__init__()
        self._width = width
        self.kernel = weights.glorot("first/kernel", (4 * width, FIRST))
        self.bias = weights.constant("first/bias", (FIRST,))
        self.second = Dense(weights.scope("second"), FIRST, SECOND)
        self.output = Dense(weights.scope("output"), SECOND, 1)

    def __call__(self, items: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Scores items.

        Args:
            items: ``[T, B, width]``, time-major; or of one user, with a static batch of 1.
            target: ``[B, width]``.

        Returns:
            float32 ``[T, B]``, one score per item, before any softmax.
        """
        if items.shape[1] == 1 and target.shape[0] != 1:
            return self._of_one_user(tf.squeeze(items, 1), target)
        of_item, of_target, of_difference, of_product = tf.split(self.kernel, 4)
        share = project(target, of_target - of_difference, self.bias)
        layers = self.second.kernel, self.second.bias, self.output.kernel, self.output.bias
        products = tf.expand_dims(scaled(items, target), 0)  # a slice's gradient would be a copy
        return score_pairs(items, products, share, of_item + of_difference, of_product, *layers)[0]

    def _of_one_user(self, items: tf.Tensor, target: tf.Tensor) -> tf.Tensor:
        """Scores items ``[T, width]`` for targets ``[B, width]``."""
        of_item, of_target, of_difference, of_product = tf.split(tf.cast(self.kernel, items.dtype), 4)
        kernels = tf.transpose(items)[..., tf.newaxis] * of_product[:, tf.newaxis]
        kernels += (of_target - of_difference)[:, tf.newaxis]
        biases = project(items, of_item + of_difference, self.bias)
        first = project(target, tf.reshape(kernels, [self._width, -1]), tf.reshape(biases, [-1]))
        second = self.second(tf.sigmoid(tf.reshape(first, [-1, FIRST])))
        scores = tf.reshape(self.output(tf.sigmoid(second)), [-1, items.shape[0]])
        return tf.cast(tf.transpose(scores), tf.float32)
