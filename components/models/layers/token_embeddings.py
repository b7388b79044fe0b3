"""Embeddings of the tokens of a text, with their positions and segments."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from components.models.layers.dropout import Dropout
from components.models.layers.layer_norm import LayerNorm
from components.models.layers.transformer import DEVIATION, initial_kernel
from components.models.layers.weights import Weights
from components.models.ops.choice import operation

# Segments that a text can have.
SEGMENTS = 2
# The vocabulary is filled up to a multiple of this, in which GPUs multiply half-precision matrices.
_MULTIPLE = 8


class TokenEmbeddings(tf.Module):
    """``norm(word + position + segment)`` of each token.

    The table of words has a row for each token, and up to 7 more that no text has. It is dense: its gradient is, too,
    so that a softmax over the vocabulary may share it.

    Args:
        vocabulary: number of tokens.
        positions: most tokens of a text.
        width: floats of an embedding.
        dropout: share of the result that training drops.
        dtype: of the result; the tables are float32.
        deviation: standard deviation of the fresh tables.
    """

    def __init__(
        self,
        weights: Weights,
        vocabulary: int,
        positions: int,
        width: int,
        dropout: float = 0.0,
        dtype: tf.DType = tf.float32,
        deviation: float = DEVIATION,
    ) -> None:
        super().__init__()
        rows = -(-vocabulary // _MULTIPLE) * _MULTIPLE
        self.words = initial_kernel(weights, "words", (rows, width), deviation)
        self.positions = initial_kernel(weights, "positions", (positions, width), deviation)
        self.segments = initial_kernel(weights, "segments", (SEGMENTS, width), deviation)
        self.norm = LayerNorm(weights.scope("layer_norm"), width)
        self.dropout = Dropout(weights, dropout)
        self._vocabulary, self._dtype = vocabulary, dtype

    def __call__(self, tokens: tf.Tensor, segments: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Embeds texts.

        Args:
            tokens: integers ``[B, L]``, L static; ids outside of the vocabulary are treated as 0, the padding.
            segments: 0 or 1, ``[B, L]``.
            training: whether dropout is on.

        Returns:
            ``[B, L, width]``.
        """
        known = (tokens >= 0) & (tokens < self._vocabulary)
        words = look_up_dense(self.words, tf.where(known, tokens, tf.zeros_like(tokens)))
        segment = tf.where(segments[..., tf.newaxis] > 0, self.segments[1], self.segments[0])
        embedded = self.norm(words + self.positions[: tokens.shape[1]] + segment)
        return self.dropout(tf.cast(embedded, self._dtype), training)


@operation()
def look_up_dense(table: tf.Variable, rows: tf.Tensor) -> tf.Tensor:
    """Gathers rows; the gradient is dense.

    Args:
        table: float32 ``[R, width]``.
        rows: integers of any shape.

    Returns:
        float32 ``[..., width]``.
    """

    @tf.custom_gradient
    def looked_up(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
        def gradient(upstream: tf.Tensor) -> tf.Tensor:
            return tf.math.unsorted_segment_sum(upstream, rows, values.shape[0])

        return tf.gather(values, rows), gradient

    return looked_up(tf.convert_to_tensor(table))
