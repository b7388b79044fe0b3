"""Embedding tables stacked in one variable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import tensorflow as tf

from components.models.layers.weights import Weights
from components.models.model import Table
from components.models.ops.rows import look_up, rows_of


class FusedEmbedding(tf.Module):
    """Embeds the ids of adjacent features with one look-up and one sparse gradient.

    The tables of all features are stacked along the rows; an id reads row ``offset of its table + id``. Compared to a
    look-up per feature, this saves concatenating results and gradients.

    Args:
        weights: source of fresh weights. A table starts uniform in ±sqrt(1 / rows).
        cardinalities: largest id of each table; a table has cardinality + 1 rows, row 0 is the padding.
        width: floats per row.
        dtype: of the returned embeddings; the table is float32.

    Examples:
        >>> embedding = FusedEmbedding(Weights(1), cardinalities=(1000, 30), width=16)
        >>> ids = tf.zeros([8, 100], tf.int32)
        >>> embedding(embedding.rows([ids, ids], first_table=0)).shape
        TensorShape([8, 100, 32])
    """

    def __init__(
        self, weights: Weights, cardinalities: Sequence[int], width: int, dtype: tf.DType = tf.float32
    ) -> None:
        super().__init__()
        self._cardinalities = tuple(cardinalities)
        rows = [cardinality + 1 for cardinality in cardinalities]
        self._offsets = (0, *accumulate(rows))
        self._dtype = dtype
        draws = [weights.uniform_rows(f"table_{i}", (n, width), math.sqrt(1.0 / n)) for i, n in enumerate(rows)]

        def draw(first: int, count: int) -> tf.Tensor:
            ranges = [
                (table, max(first - begin, 0), min(first + count, end) - begin)
                for table, begin, end in zip(draws, self._offsets, self._offsets[1:], strict=False)
            ]
            return tf.concat([table(begin, end - begin) for table, begin, end in ranges if begin < end], 0)

        self.tables = weights.tables().drawn("embedding_tables", (self._offsets[-1], width), draw)

    def rows(
        self,
        ids: Sequence[tf.Tensor],
        first_table: int,
        positions: slice = slice(None),
        time_first: bool = False,
    ) -> tf.Tensor:
        """Row indices for the ids of adjacent tables.

        Args:
            ids: of F features, int32 or int64 ``[B]`` or ``[B, length]``; ids outside 0..cardinality become padding.
            first_table: the table of the first feature.
            positions: history positions to read.
            time_first: whether the result is time-major.

        Returns:
            ``[B, F]``, or ``[B, L, F]`` or ``[L, B, F]`` for L positions, in the dtype of the ids; in the first table
            the padding is row 0.
        """
        tables = slice(first_table, first_table + len(ids))
        return rows_of(
            ids, self._cardinalities[tables], self._offsets[tables], positions.start, positions.stop, time_first
        )

    def __call__(self, rows: tf.Tensor, has_padding: bool = False) -> tf.Tensor:
        """Embeds the row indices of ``rows``.

        Args:
            rows: ``[..., F]``.
            has_padding: positions with a first row of 0 are padding and get no gradient.

        Returns:
            The F features concatenated, ``[..., F * width]``.
        """
        return look_up(self.tables, rows, self._dtype, has_padding)

    def table_of(self, index: int) -> Table:
        return Table(self.tables, self._offsets[index], self._cardinalities[index] + 1)

    def table(self, index: int) -> tf.Tensor:
        """The rows of one feature, float32 ``[cardinality + 1, width]``."""
        return self.tables[self._offsets[index] : self._offsets[index + 1]]
