"""One embedding table per feature, of individual width."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from components.feature_spec import Feature
from components.models.layers.weights import Weights
from components.models.model import Table
from components.models.tables.exchange import gather

Initial = Callable[[Weights, str, tuple[int, int]], tf.Variable]


def uniform_by_rows(weights: Weights, name: str, shape: tuple[int, int]) -> tf.Variable:
    """Uniform in ±sqrt(1 / rows)."""
    return weights.uniform(name, shape, math.sqrt(1.0 / shape[0]))


def uniform_in(limit: float) -> Initial:
    """Uniform in ±limit, whatever the size of the table."""
    return lambda weights, name, shape: weights.uniform(name, shape, limit)


class EmbeddingTables(tf.Module):
    """Embeds one id, or sums the embeddings of a list of ids, per feature.

    Args:
        features: with a cardinality; a table has cardinality + 1 rows.
        widths: floats per row of each table.
        initial: creates a table's variable, or this rank's shard, from the weights passed to it.
        dtype: of the returned embeddings; the tables are float32.

    Attributes:
        tables: feature name to table.

    Examples:
        >>> city, tags = Feature("city", "int64", 9), Feature("tags", "int64", 5, 3)
        >>> embed = EmbeddingTables(Weights(1), (city, tags), (8, 4))
        >>> embedded = embed({"city": tf.constant([2, 0]), "tags": tf.constant([[1, 5, 0], [0, 0, 0]])})
        >>> [tuple(each.shape) for each in embedded]
        [(2, 8), (2, 4)]
    """

    def __init__(
        self,
        weights: Weights,
        features: Sequence[Feature],
        widths: Sequence[int],
        initial: Initial = uniform_by_rows,
        dtype: tf.DType = tf.float32,
    ) -> None:
        super().__init__()
        self._features = tuple(features)
        self._dtype = dtype
        self.tables = {}
        for feature, width in zip(self._features, widths, strict=True):
            rows = (feature.cardinality or 0) + 1
            self.tables[feature.name] = Table(initial(weights.tables(), feature.name, (rows, width)), 0, rows)

    def __call__(self, features: Mapping[str, tf.Tensor]) -> list[tf.Tensor]:
        """Embeds a batch.

        Args:
            features: ids by name, ``[B]`` or ``[B, length]``. Ids outside 0..cardinality are treated as 0. In a list, 0
                is padding and adds nothing; otherwise, row 0 is embedded.

        Returns:
            ``[B, width]`` for each feature, in order.
        """
        tables = [self.tables[feature.name] for feature in self._features]
        ids = [self._known(feature, features[feature.name]) for feature in self._features]
        rows = gather([table.variable for table in tables], ids)
        return [
            tf.cast(embedded if feature.length is None else _sum(embedded, values), self._dtype)
            for feature, embedded, values in zip(self._features, rows, ids, strict=True)
        ]

    def _known(self, feature: Feature, ids: tf.Tensor) -> tf.Tensor:
        """The ids, with 0 for ids outside the table."""
        known = (ids >= 0) & (ids < self.tables[feature.name].rows)
        return tf.where(known, ids, tf.zeros_like(ids))


def _sum(rows: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    """Sums the rows ``[B, length, width]`` of lists of ids, without padding."""
    return tf.reduce_sum(rows * tf.cast(ids > 0, rows.dtype)[..., tf.newaxis], 1)
