"""Losses per sample and position."""

from __future__ import annotations

import tensorflow as tf


def log_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """``-y log(sigmoid(x)) - (1 - y) log(1 - sigmoid(x))``, float32 ``[B]``."""
    return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)


def next_item_losses(clicked: tf.Tensor, unclicked: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """``(-log(sigmoid(clicked)) - log(1 - sigmoid(unclicked))) / 2``, summed over each sample's masked positions.

    Args:
        clicked, unclicked: float32 ``[..., B]``.
        mask: bool ``[..., B]``.

    Returns:
        float32 ``[B]``.
    """
    losses = (tf.nn.softplus(-clicked) + tf.nn.softplus(unclicked)) * (0.5 * tf.cast(mask, tf.float32))
    return tf.reduce_sum(losses, list(range(len(mask.shape) - 1)))
