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
    ranks: Ranks,
    gradients: Sequence[Gradient],
    others: Sequence[tf.Tensor],
    keep_sparse: Sequence[bool],
    are_parts: Sequence[bool],
) -> tuple[list[Gradient], list[tf.Tensor]]:
    """Sums gradients, and a few numbers along with them.

    Args:
        ranks: who takes part.
        gradients: of the same variables in the same order on every rank.
        others: float32, reduced in the same message.
        keep_sparse: of each gradient, never to make it dense, for an optimizer that leaves untouched rows alone.
        are_parts: of each gradient, that it is of a part of a table. The exchange of rows has summed those already, on
            the rank that holds the part.

    Returns:
        The summed gradients, in order, and the summed others.
    """
    if ranks.size == 1:
        return list(gradients), list(others)
    summed: list[Gradient] = [
        tf.convert_to_tensor(gradient) if _is_small_table(gradient) and not (keeps or is_part) else gradient
        for gradient, keeps, is_part in zip(gradients, keep_sparse, are_parts, strict=True)
    ]
    shared = [index for index, is_part in enumerate(are_parts) if not is_part]
    dense = [index for index in shared if not isinstance(summed[index], tf.IndexedSlices)]
    reduced = ranks.sum([summed[index] for index in dense] + list(others), name="gradients")
    for index, gradient in zip(dense, reduced, strict=False):
        summed[index] = gradient
    for index in shared:
        if isinstance(summed[index], tf.IndexedSlices):
            summed[index] = ranks.sum_slices(summed[index], name=f"slices_{index}")
    return summed, reduced[len(dense) :]


def _is_small_table(gradient: Gradient) -> bool:
    return (
        isinstance(gradient, tf.IndexedSlices)
        and (gradient.shape.num_elements() or DENSE_ELEMENTS + 1) <= DENSE_ELEMENTS
    )
