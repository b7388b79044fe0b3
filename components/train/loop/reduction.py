"""Summing gradients over the ranks, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from components.train.loop.ranks import Ranks

Gradient = Any  # tf.Tensor or tf.IndexedSlices

# A table up to this size (4 MiB) costs less to sum whole than its rows cost to find, send and merge.
DENSE_ELEMENTS = 1 << 20


def sum_gradients(
    ranks: Ranks, gradients: Sequence[Gradient], others: Sequence[tf.Tensor], keep_sparse: Sequence[bool]
) -> tuple[list[Gradient], list[tf.Tensor]]:
    """Sums gradients, and a few numbers along with them.

    Args:
        ranks: who takes part.
        gradients: of the same variables in the same order on every rank.
        others: float32, reduced in the same message.
        keep_sparse: of each gradient, never to make it dense, for an optimizer that leaves untouched rows alone.

    Returns:
        The summed gradients, in order, and the summed others.
    """
    if ranks.size == 1:
        return list(gradients), list(others)
    summed: list[Gradient] = [
        tf.convert_to_tensor(gradient) if _is_small_table(gradient) and not keeps else gradient
        for gradient, keeps in zip(gradients, keep_sparse, strict=True)
    ]
    dense = [index for index, gradient in enumerate(summed) if not isinstance(gradient, tf.IndexedSlices)]
    reduced = ranks.sum([summed[index] for index in dense] + list(others), name="gradients")
    for index, gradient in zip(dense, reduced, strict=False):
        summed[index] = gradient
    for index, gradient in enumerate(summed):
        if isinstance(gradient, tf.IndexedSlices):
            summed[index] = ranks.sum_slices(gradient, name=f"slices_{index}")
    return summed, reduced[len(dense) :]


def _is_small_table(gradient: Gradient) -> bool:
    return (
        isinstance(gradient, tf.IndexedSlices)
        and (gradient.shape.num_elements() or DENSE_ELEMENTS + 1) <= DENSE_ELEMENTS
    )
