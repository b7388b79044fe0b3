"""All embedding tables as one, read by one gather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import tensorflow as tf

from components.models.layers.weights import Weights


class Ids(NamedTuple):
    """Ids to embed.

    Attributes:
        ids: int32 or int64 ``[..., F]``; the last axis runs over neighbouring tables.
        first_table: the table of ``ids[..., 0]``.
    """

    ids: tf.Tensor
    first_table: int


class FusedEmbedding(tf.Module):
    """Embeds groups of ids with one lookup and one sparse gradient.

    The tables of all features are stacked along the rows; an id reads row ``offset of its table + id``. Compared with
    a lookup for each feature and group this saves the concatenation of their results and of their gradients.

    Args:
        weights: source of fresh weights. A table starts uniform in ±sqrt(1 / rows).
        cardinalities: largest id of each table; a table has cardinality + 1 rows, row 0 is the padding.
        width: floats in a row.
        dtype: what the embeddings are returned as; the table is float32.

    Example:
        >>> embedding = FusedEmbedding(Weights(1), cardinalities=(1000, 30), width=16)
        >>> (items,) = embedding([Ids(tf.zeros([8, 100, 2], tf.int32), first_table=0)])
        >>> items.shape
        TensorShape([8, 100, 32])
    """

    def __init__(
        self, weights: Weights, cardinalities: Sequence[int], width: int, dtype: tf.DType = tf.float32
    ) -> None:
        super().__init__()
        rows = [cardinality + 1 for cardinality in cardinalities]
        self._offsets = (0, *accumulate(rows))
        self._width = width
        self._dtype = dtype
        self.tables = tf.Variable(
            tf.concat(
                [weights.uniform_values(f"table_{i}", (n, width), math.sqrt(1.0 / n)) for i, n in enumerate(rows)], 0
            ),
            name="embedding_tables",
        )

    def __call__(self, groups: Sequence[Ids]) -> list[tf.Tensor]:
        """Embeds every group.

        Returns:
            For ids ``[..., F]`` a tensor ``[..., F * width]``: the embeddings of the F features side by side.
        """
        flat = [
            tf.reshape(ids + tf.constant(self._offsets[first : first + ids.shape[-1]], ids.dtype), [-1])
            for ids, first in groups
        ]
        rows = tf.cast(tf.gather(self.tables, tf.concat(flat, 0)), self._dtype)
        parts = tf.split(rows, [tf.size(ids) for ids in flat], num=len(flat))
        return [
            tf.reshape(part, tf.concat([tf.shape(ids)[:-1], [ids.shape[-1] * self._width]], 0))
            for part, (ids, _) in zip(parts, groups, strict=True)
        ]

    def table(self, index: int) -> tf.Tensor:
        """The rows of one feature, float32 ``[cardinality + 1, width]``."""
        return self.tables[self._offsets[index] : self._offsets[index + 1]]
