"""The all-reduce of a step's gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from components.train.loop.ranks import Ranks

Gradient = Any  # tf.Tensor or tf.IndexedSlices


def sum_gradients(
    ranks: Ranks,
    gradients: Sequence[Gradient],
    others: Sequence[tf.Tensor],
    are_dense: Sequence[bool],
    are_parts: Sequence[bool],
    in_half: bool = False,
) -> tuple[list[Gradient], list[tf.Tensor]]:
    """Sums gradients over the ranks, together with a few other tensors.

    Args:
        ranks: of this training.
        gradients: of the same variables in the same order on every rank.
        others: float32, reduced in the same message.
        are_dense: per gradient, whether slices are converted to dense and all-reduced; other slices are all-gathered.
        are_parts: per gradient, whether its variable is a table shard. The exchange of rows has already summed those on
            the shard's rank.
        in_half: all-reduce dense gradients in float16. Requires a loss scale: it keeps small gradients from
            underflowing, and a sum that overflows is not finite, so that the step is skipped.

    Returns:
        The summed gradients, in order, and the summed others.
    """
    if ranks.size == 1:
        return list(gradients), list(others)
    summed: list[Gradient] = [
        tf.convert_to_tensor(gradient) if is_whole and not is_part else gradient
        for gradient, is_whole, is_part in zip(gradients, are_dense, are_parts, strict=True)
    ]
    shared = [index for index, is_part in enumerate(are_parts) if not is_part]
    dense = [index for index in shared if not isinstance(summed[index], tf.IndexedSlices)]
    sent = [summed[index] for index in dense]
    if in_half:
        halves = ranks.sum([tf.cast(gradient, tf.float16) for gradient in sent], name="half_gradients")
        reduced = [tf.cast(half, tf.float32) for half in halves]
        others = ranks.sum(others, name="losses")
    else:
        everything = ranks.sum([*sent, *others], name="gradients")
        reduced, others = everything[: len(dense)], everything[len(dense) :]
    for index, gradient in zip(dense, reduced, strict=True):
        summed[index] = gradient
    for index in shared:
        if isinstance(summed[index], tf.IndexedSlices):
            summed[index] = ranks.sum_slices(summed[index], name=f"slices_{index}")
    return summed, list(others)
