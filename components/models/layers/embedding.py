"""All embedding tables as one, read by one gather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import tensorflow as tf

from components.models.kernels import names
from components.models.kernels import rows as kernels
from components.models.layers.weights import Weights
from components.models.model import Table


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
        >>> ids = tf.zeros([8, 100], tf.int32)
        >>> (items,) = embedding([embedding.rows([ids, ids], first_table=0)])
        >>> items.shape
        TensorShape([8, 100, 32])
    """

    def __init__(
        self, weights: Weights, cardinalities: Sequence[int], width: int, dtype: tf.DType = tf.float32
    ) -> None:
        super().__init__()
        self._cardinalities = tuple(cardinalities)
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

    def rows(
        self,
        ids: Sequence[tf.Tensor],
        first_table: int,
        positions: slice = slice(None),
        time_first: bool = False,
    ) -> tf.Tensor:
        """Which rows the ids of neighbouring tables read.

        Args:
            ids: of F features, int32 or int64 ``[B]`` or ``[B, length]``; one outside 0..cardinality reads the padding.
            first_table: the table of the first feature.
            positions: of a history, those that are wanted.
            time_first: whether these come before the samples.

        Returns:
            ``[B, F]``, or ``[B, L, F]`` or ``[L, B, F]`` for L positions, in the type of the ids; in the first table
            the padding is row 0.
        """
        if kernels.fits(self.tables):
            tables = slice(first_table, first_table + len(ids))
            return names.named(ids, self._cardinalities[tables], self._offsets[tables], positions, time_first)
        if len(ids[0].shape) == 2:
            ids = [tf.transpose(values[:, positions]) if time_first else values[:, positions] for values in ids]
        rows = []
        for table, values in enumerate(ids, first_table):
            known = (values >= 0) & (values <= tf.constant(self._cardinalities[table], values.dtype))
            # Added before the features are interleaved, where the offset is one number for the whole tensor.
            rows.append(
                tf.where(known, values, tf.zeros_like(values)) + tf.constant(self._offsets[table], values.dtype)
            )
        return tf.stack(rows, -1)

    def narrowed(self, groups: Sequence[tf.Tensor]) -> tuple[tf.Tensor | tf.Variable, list[tf.Tensor]]:
        """The rows that groups name, and the groups as places among these.

        With kernels each row is there once, ascending, so that its gradient is added up only once. Without them these
        are all rows, and a place is the row's number.

        Args:
            groups: each ``[..., F]``, of one integer type.

        Returns:
            ``[rows, width]``, and the groups.
        """
        if not kernels.fits(self.tables):
            return self.tables, list(groups)
        found, places = names.distinct(groups, self.tables.shape[0])
        return kernels.look_up(kernels.whole(self.tables), found), places

    def embed(
        self, rows: tf.Tensor | tf.Variable, groups: Sequence[tf.Tensor], again: bool = False
    ) -> tuple[list[tf.Tensor], tf.Tensor | tf.Variable]:
        """Embeds what :meth:`narrowed` gave, by one look-up.

        Args:
            rows, groups: of :meth:`narrowed`.
            again: whether the rows are used for something else too, which then has to use those that are returned.

        Returns:
            For each group ``[..., F * width]``: the embeddings of the F features side by side. And the rows.
        """
        if kernels.fits(rows):
            values, rows = kernels.take(rows, groups, again)
        else:
            joined = tf.gather(rows, tf.concat([tf.reshape(group, [-1]) for group in groups], 0))
            parts = tf.split(joined, [tf.size(group) for group in groups], num=len(groups))
            widths = [[group.shape[-1] * self._width] for group in groups]
            shapes = [tf.concat([tf.shape(group)[:-1], width], 0) for group, width in zip(groups, widths, strict=True)]
            values = [tf.reshape(part, shape) for part, shape in zip(parts, shapes, strict=True)]
        return [tf.cast(value, self._dtype) for value in values], rows

    def __call__(self, groups: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Embeds groups of rows.

        Args:
            groups: each ``[..., F]``, of one integer type.

        Returns:
            For each group ``[..., F * width]``: the embeddings of the F features side by side.
        """
        return self.embed(*self.narrowed(groups))[0]

    def table_of(self, index: int) -> Table:
        """Where the rows of one feature are."""
        return Table(self.tables, self._offsets[index], self._cardinalities[index] + 1)

    def table(self, index: int) -> tf.Tensor:
        """The rows of one feature, float32 ``[cardinality + 1, width]``."""
        return self.tables[self._offsets[index] : self._offsets[index + 1]]
