"""A linear function of ids and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf

from components.feature_spec import Feature
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.weights import Weights
from components.models.ops.dense import project


class Linear(tf.Module):
    """``sum of a weight for each id + numbers W + b``; everything starts at 0.

    A table of width 1 is the weights of a one-hot feature.

    Args:
        features: ids, or lists of ids; each id has a weight.
        numbers: width of the numbers.

    Examples:
        >>> city = Feature("city", "int64", 9)
        >>> linear = Linear(Weights(1), (city,), numbers=2)
        >>> linear({"city": tf.constant([2, 0])}, tf.zeros([2, 2])).shape
        TensorShape([2, 1])
    """

    def __init__(self, weights: Weights, features: Sequence[Feature], numbers: int) -> None:
        super().__init__()
        self.embed = EmbeddingTables(weights, features, [1] * len(features), Weights.constant)
        self.kernel = weights.constant("kernel", (numbers, 1)) if numbers else None
        self.bias = weights.constant("bias", (1,))

    def __call__(self, features: Mapping[str, tf.Tensor], numbers: tf.Tensor) -> tf.Tensor:
        """Scores a batch, float32 ``[B, 1]``; ``numbers`` is float32 ``[B, numbers]``."""
        parts = self.embed(features)
        if self.kernel is not None:
            parts.append(project(numbers, self.kernel))
        return tf.nn.bias_add(tf.add_n(parts), self.bias)
