"""A small network that scores pairs, on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from components.models.ops.choice import fused
from components.models.ops.dense import project


def score_pairs(
    x: tf.Tensor, y: tf.Tensor, share: tf.Tensor, of_x: tf.Tensor, of_y: tf.Tensor, *layers: tf.Tensor
) -> tf.Tensor:
    """See :func:`components.models.ops.pairs.score_pairs`; one fused kernel between two products."""
    steps = y.shape[1]
    read = x if x.shape[0] == steps else tf.split(x, [steps, -1])[0]
    rows = activated(project(y, of_y), project(read, of_x), tf.cast(share, x.dtype))
    rows = tf.reshape(rows, [-1, of_x.shape[-1]])
    *hidden, kernel, bias = layers
    for kernel_of_layer, bias_of_layer in zip(hidden[::2], hidden[1::2], strict=True):
        rows = activated(project(rows, kernel_of_layer), tf.cast(bias_of_layer, rows.dtype))
    return tf.cast(tf.reshape(project(rows, kernel, bias), tf.shape(y)[:-1]), tf.float32)


@tf.custom_gradient
def scaled(items: tf.Tensor, target: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
    """See :func:`components.models.ops.pairs.scaled`."""

    def gradient(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.name_scope("scaled_gradient"):
            return _scaled_gradients(items, target, upstream)

    return items * target, gradient


@fused
def _scaled_gradients(items: tf.Tensor, target: tf.Tensor, upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return upstream * target, _summed(upstream * items, 1)


@tf.custom_gradient
def activated(*parts: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Sequence[tf.Tensor]]]:
    """The sigmoid of a sum.

    Args:
        parts: ``[..., B, units]``; the first has the shape of the sum, the others broadcast over leading axes.
    """
    result = _sigmoid_of(parts)

    def gradient(upstream: tf.Tensor) -> Sequence[tf.Tensor]:
        with tf.name_scope("activated_gradient"):
            return _gradients(result, upstream, [len(part.shape) for part in parts])

    return result, gradient


@fused
def _sigmoid_of(parts: Sequence[tf.Tensor]) -> tf.Tensor:
    return tf.sigmoid(sum(parts[1:], parts[0]))


@fused
def _gradients(result: tf.Tensor, upstream: tf.Tensor, ranks: Sequence[int]) -> list[tf.Tensor]:
    """The gradients of parts with these ranks, accumulated in float32."""
    of_sum = tf.raw_ops.SigmoidGrad(y=result, dy=upstream)
    return [_summed(of_sum, len(result.shape) - rank) for rank in ranks]


def _summed(values: tf.Tensor, axes: int) -> tf.Tensor:
    """The sum over this number of leading axes; element-wise except over samples, so that no total is in memory."""
    if not axes:
        return values
    total = tf.cast(values, tf.float32)
    of_samples = len(values.shape) - axes < 2
    for _ in range(axes - of_samples):
        total = tf.add_n(tf.unstack(total))
    if of_samples:
        total = tf.reduce_sum(total, 0)
    return tf.cast(total, values.dtype)
