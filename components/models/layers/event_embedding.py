"""Embeddings of what is told of events, such as a device and an interval of prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from components.feature_spec import Feature
from components.models.layers.token_embeddings import look_up_dense
from components.models.layers.weights import Weights
from components.models.model import Table


class EventEmbedding(tf.Module):
    """The sum of the embeddings of an event's columns: ``sum over the columns c of E_c[id_c]``.

    Each column has a table, which starts at 0: an id that never trains, such as that of a missing value in data
    without one, adds nothing.

    Args:
        features: of the columns, with their largest ids.
        width: floats of an embedding.
        dtype: of the result; the tables are float32.

    Attributes:
        tables: feature name to the rows that embed its ids.

    Examples:
        >>> devices = Feature("device_sequence", "int64", cardinality=5, length=10)
        >>> EventEmbedding(Weights(1), [devices], 16)({"device_sequence": tf.zeros([8, 10], tf.int32)}).shape
        TensorShape([8, 10, 16])

    References:
        Sums of embeddings as in Devlin et al., BERT, https://arxiv.org/abs/1810.04805, figure 2.
    """

    def __init__(self, weights: Weights, features: Sequence[Feature], width: int, dtype: tf.DType = tf.float32) -> None:
        super().__init__()
        self._dtype = dtype
        self.tables = {
            feature.name: Table(weights.constant(feature.name, (rows, width)), 0, rows)
            for feature, rows in ((feature, (feature.cardinality or 0) + 1) for feature in features)
        }

    def __call__(self, features: Mapping[str, tf.Tensor], positions: slice = slice(None)) -> tf.Tensor:
        """Embeds events.

        Args:
            features: ids by name, ``[B]`` or ``[B, length]``; ids outside 0..cardinality are treated as 0.
            positions: of histories to read.

        Returns:
            ``[B, width]``, or ``[B, L, width]`` for L positions.
        """
        return tf.add_n([self._of_column(features[name], table, positions) for name, table in self.tables.items()])

    def _of_column(self, ids: tf.Tensor, table: Table, positions: slice) -> tf.Tensor:
        chosen = ids if len(ids.shape) == 1 else ids[:, positions]
        known = tf.where((chosen >= 0) & (chosen < table.rows), chosen, tf.zeros_like(chosen))
        return tf.cast(look_up_dense(table.variable, known), self._dtype)
