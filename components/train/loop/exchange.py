"""How ranks exchange gradients: in one all-reduce, or for a large embedding table in an all-gather of its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from components.models import Model
from components.models.model import loss_terms_of
from components.models.tables.exchange import recorded_rows
from components.train.loop.ranks import Ranks

Gradient = Any  # tf.Tensor or tf.IndexedSlices
# Up to this size (4 MiB), all-reducing the table is cheaper than finding, sending and merging its rows.
ALWAYS_WHOLE = 1 << 20


def sent_whole(shape: Sequence[int], ranks: int, value_bytes: int = 4) -> float:
    """Bytes that a rank sends in a ring all-reduce of a table: ``2 (n - 1) / n * height * width * value``."""
    return 2 * (ranks - 1) / ranks * int(np.prod(shape)) * value_bytes


def sent_as_rows(rows: int, width: int, ranks: int, index_bytes: int = 4) -> int:
    """Bytes that a rank sends in an all-gather of its rows: ``(n - 1) * rows * (row + index)``."""
    return (ranks - 1) * rows * (4 * width + index_bytes)


def is_whole(
    shape: Sequence[int],
    keeps_sparse: bool,
    touched: int | None,
    ranks: int,
    index_bytes: int = 4,
    value_bytes: int = 4,
) -> bool:
    """Whether to all-reduce a variable's whole gradient, because that sends no more bytes than its rows.

    An all-gather delivers every rank's rows to every rank, duplicates included, so its cost grows with the ranks; that
    of an all-reduce does not. At a fixed batch size per rank, few ranks exchange rows and many reduce tables.

    Args:
        shape: of the variable, ``[height, width]`` for a table.
        keeps_sparse: the optimizer, such as lazy Adam, updates only rows with a gradient; then never whole.
        touched: distinct rows in a rank's batch, the maximum over ranks; None if unknown.
        index_bytes: size of a row index.
        value_bytes: size of a value of the whole gradient on the wire; 2 in half precision.
    """
    if keeps_sparse:
        return False
    if int(np.prod(shape)) <= ALWAYS_WHOLE:
        return True
    if touched is None:
        return False
    width = int(np.prod(shape[1:]))
    return sent_as_rows(touched, width, ranks, index_bytes) >= sent_whole(shape, ranks, value_bytes)


def touched_rows(
    model: Model, variables: Sequence[tf.Variable], features: Mapping[str, tf.Tensor], targets: Mapping[str, tf.Tensor]
) -> list[int | None]:
    """Distinct rows of each variable that a batch looks up; None for a variable without look-ups.

    Only the ids are computed: TensorFlow prunes the rest of the forward pass.
    """
    looked_up: list[bool] = []

    def count(features: Mapping[str, tf.Tensor], targets: Mapping[str, tf.Tensor]) -> tf.Tensor:
        mask = tf.ones(tf.shape(next(iter(features.values())))[:1], tf.bool)
        with recorded_rows() as recorded:
            loss_terms_of(model, features, targets, mask, training=False)
        asked = [recorded.get(variable.ref(), []) for variable in variables]
        looked_up[:] = map(bool, asked)  # tf.function traces twice if a variable is created
        return tf.stack([tf.size(tf.unique(tf.concat(ids, 0))[0]) for ids in asked if ids] or [tf.constant(0)])

    counts = iter(tf.function(count, autograph=False)(features, targets).numpy().tolist())
    return [next(counts) if looks_up else None for looks_up in looked_up]


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
