"""How the ranks exchange the gradients of embedding tables: whole, or as the rows that have one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from components.models import Model
from components.models.tables.exchange import recorded_rows

# A table up to this size (4 MiB) costs less to sum whole than its rows cost to find, send and merge.
ALWAYS_WHOLE = 1 << 20


def sent_whole(shape: Sequence[int], ranks: int, value_bytes: int = 4) -> float:
    """Bytes that a rank sends to sum a table's gradient on a ring: ``2 (n - 1) / n * height * width * value``."""
    return 2 * (ranks - 1) / ranks * int(np.prod(shape)) * value_bytes


def sent_as_rows(rows: int, width: int, ranks: int, index_bytes: int = 4) -> int:
    """Bytes that a rank sends to give its rows to all others: ``(n - 1) * rows * (row + index)``."""
    return (ranks - 1) * rows * (4 * width + index_bytes)


def is_whole(
    shape: Sequence[int],
    keeps_sparse: bool,
    touched: int | None,
    ranks: int,
    index_bytes: int = 4,
    value_bytes: int = 4,
) -> bool:
    """Whether the ranks sum a variable's gradient whole, because that sends no more bytes than its rows.

    Rows of all ranks arrive at every rank, whether they name the same rows or not, so that they cost more with every
    rank; the sum of a table does not. Of the same batch per rank, a few ranks exchange rows and many sum tables.

    Args:
        shape: of the variable, ``[height, width]`` for a table.
        keeps_sparse: the optimizer leaves alone the rows that have no gradient, such as lazy Adam, and has to know
            them; never whole.
        touched: distinct rows that a rank's batch looks up, the most of any rank; None where that is not known.
        ranks: number of ranks.
        index_bytes: of a row's number.
        value_bytes: of a number of the whole gradient on the wire; 2 in half precision.
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
    model: Model, variables: Sequence[tf.Variable], features: Mapping[str, tf.Tensor], labels: tf.Tensor
) -> list[int | None]:
    """Distinct rows of each variable that a batch looks up; None of a variable that is no table.

    Only the ids are computed: TensorFlow prunes the rest of the forward pass, which the result does not need.
    """
    looked_up: list[bool] = []

    def count(features: Mapping[str, tf.Tensor], labels: tf.Tensor) -> tf.Tensor:
        with recorded_rows() as recorded:
            model.loss_terms(features, labels, training=False)
        asked = [recorded.get(variable.ref(), []) for variable in variables]
        looked_up[:] = map(bool, asked)  # a function that makes a variable, such as a counter, is traced twice
        return tf.stack([tf.size(tf.unique(tf.concat(ids, 0))[0]) for ids in asked if ids] or [tf.constant(0)])

    counts = iter(tf.function(count, autograph=False)(features, labels).numpy().tolist())
    return [next(counts) if found else None for found in looked_up]
