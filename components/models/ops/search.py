"""SIM's search over a long history."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from components.models.ops.attention import attend, dot_scores, masked_softmax, top_k_mask
from components.models.ops.choice import operation
from components.models.ops.rows import look_up


@operation()
def search(
    table: tf.Variable, rows: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, k: int, added: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Attention over a history, attention over the k items with the highest attention, and the mean of these.

    The found items are a mask over the history, so all three are weighted sums of the history, in one product. The mean
    is ``sum / (count + 1)``.

    Args:
        table: float32 ``[R, width]``, or this rank's part of it.
        rows: row indices of the F features of each item, integers ``[B, L, F]``.
        mask: bool ``[B, L]``, false at padding.
        target: ``[B, F * width]``.
        added: what to add to the items' embeddings, ``[B, L, F * width]``; None adds nothing.

    Returns:
        Three tensors ``[B, F * width]`` in the dtype of the target.

    References:
        Qi et al., Search-based User Interest Modeling, https://arxiv.org/abs/2006.05639
    """

    items = _items(table, rows, target, added)
    attention, best, mean = tf.unstack(attend(items, target, weighing(mask, k)), axis=1)
    return attention, best, mean


def _items(table: tf.Variable, rows: tf.Tensor, target: tf.Tensor, added: tf.Tensor | None) -> tf.Tensor:
    items = look_up(table, rows, target.dtype, has_padding=True)
    return items if added is None else items + added


def found_weights(
    table: tf.Variable, rows: tf.Tensor, mask: tf.Tensor, target: tf.Tensor, k: int, added: tf.Tensor | None = None
) -> tf.Tensor:
    """The items that ``search`` finds.

    Args:
        table: this and the other arguments are those of ``search``.

    Returns:
        float32 ``[B, L]``: for a found item its attention over the whole history, 0 for other items, -1 for padding.
    """
    items = _items(table, rows, target, added)
    attention = masked_softmax(dot_scores(items, target), mask)
    return tf.where(mask, tf.where(top_k_mask(attention, k), attention, 0.0), -1.0)


def weighing(mask: tf.Tensor, k: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """Maps scores ``[B, L]`` to the weights of the three sums, float32 ``[B, 3, L]``."""

    def weigh(scores: tf.Tensor) -> tf.Tensor:
        attention = masked_softmax(scores, mask)
        best = top_k_mask(attention, k)
        ones = tf.cast(best, tf.float32)
        mean = ones / (tf.reduce_sum(ones, -1, keepdims=True) + 1.0)
        return tf.stack([attention, masked_softmax(scores, best), mean], 1)

    return weigh
