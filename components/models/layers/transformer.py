"""Transformer layers: self-attention and a feed-forward network, each followed by a layer normalisation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import tensorflow as tf

from components.models.layers.dense import Dense
from components.models.layers.dropout import Dropout
from components.models.layers.layer_norm import LayerNorm
from components.models.layers.weights import Weights
from components.models.ops.choice import operation

# Standard deviation of fresh kernels and embeddings, as published for BERT and ELECTRA.
DEVIATION = 0.02
# Added to the scores of hidden positions: far below any score, and finite, so that a row of padding gives no nan.
_HIDDEN = -1e9


class Sizes(NamedTuple):
    """Sizes of a stack of layers.

    Attributes:
        width: of a position's state.
        heads: attention heads, which divide the width.
        feed_forward: width of the hidden layer of the feed-forward network.
        dropout: share of the states, after each part of a layer, that training drops.
        attention_dropout: share of the attention weights that training drops.
        deviation: standard deviation of fresh kernels.
    """

    layers: int
    width: int
    heads: int
    feed_forward: int
    dropout: float = 0.0
    attention_dropout: float = 0.0
    deviation: float = DEVIATION


def initial_kernel(weights: Weights, name: str, shape: Sequence[int], deviation: float = DEVIATION) -> tf.Variable:
    """Truncated normal."""
    return weights.truncated_normal(name, shape, deviation)


def gelu(x: tf.Tensor) -> tf.Tensor:
    """``x * P(X <= x)`` of a standard normal X; Hendrycks and Gimpel, https://arxiv.org/abs/1606.08415."""
    return tf.nn.gelu(x, approximate=False)


class SelfAttention(tf.Module):
    """Multi-head attention of the positions of a sequence to each other.

        head_h = softmax(Q_h K_h^T / sqrt(width / heads)) V_h,   Q = x W_q + b_q, and K, V alike
        result = [head_1, ..., head_H] W_o + b_o

    Softmaxes are computed in float32.

    References:
        Vaswani et al., Attention Is All You Need, https://arxiv.org/abs/1706.03762, section 3.2
    """

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__()
        self._heads = sizes.heads
        initial = partial(initial_kernel, deviation=sizes.deviation)
        self.query, self.key, self.value, self.output = (
            Dense(weights.scope(name), sizes.width, sizes.width, initial)
            for name in ("query", "key", "value", "output")
        )
        self.dropout = Dropout(weights, sizes.attention_dropout)

    def __call__(self, x: tf.Tensor, bias: tf.Tensor, training: bool) -> tf.Tensor:
        """Attends.

        Args:
            x: ``[B, L, width]``.
            bias: of ``attention_bias``.
            training: whether dropout is on.

        Returns:
            ``[B, L, width]``.
        """
        query, key, value = (self._split(layer(x)) for layer in (self.query, self.key, self.value))
        weights = attention_weights(query, key, bias)
        mixed = tf.matmul(self.dropout(weights, training), value)
        return self.output(tf.reshape(tf.transpose(mixed, [0, 2, 1, 3]), tf.shape(x)))

    def _split(self, x: tf.Tensor) -> tf.Tensor:
        """``[B, L, width]`` to ``[B, heads, L, width / heads]``."""
        length, width = x.shape[1:]
        heads = tf.reshape(x, [-1, length, self._heads, width // self._heads])
        return tf.transpose(heads, [0, 2, 1, 3])


def attention_bias(visible: tf.Tensor) -> tf.Tensor:
    """What ``attention_weights`` adds to the scores: 0, or a very small number for hidden keys.

    Args:
        visible: bool, which keys are no padding, ``[B, L]``; or which keys each query sees, ``[B, L, L]``.

    Returns:
        float32, broadcasts to ``[B, heads, L, L]``.
    """
    shown = visible[:, tf.newaxis, tf.newaxis] if len(visible.shape) == 2 else visible[:, tf.newaxis]
    return tf.where(shown, 0.0, _HIDDEN)


@operation()
def attention_weights(query: tf.Tensor, key: tf.Tensor, bias: tf.Tensor) -> tf.Tensor:
    """``softmax(Q K^T / sqrt(d) + bias)`` over the keys.

    Args:
        query, key: ``[B, heads, L, d]``.
        bias: float32, broadcasts to the result.

    Returns:
        ``[B, heads, L, L]``, in the dtype of the queries.
    """
    # Scaled before the product: fewer values, and no overflow of float16.
    scaled = query * tf.cast(1.0 / math.sqrt(query.shape[-1]), query.dtype)
    scores = tf.cast(tf.matmul(scaled, key, transpose_b=True), tf.float32)
    return tf.cast(tf.nn.softmax(scores + bias), query.dtype)


class TransformerLayer(tf.Module):
    """One layer, with the normalisation after each sum.

        y = norm(x + attention(x))
        result = norm(y + W_2 gelu(W_1 y + b_1) + b_2)

    Args:
        weights: source of fresh weights.
    """

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__()
        attention, feed_forward = weights.scope("attention"), weights.scope("feed_forward")
        initial = partial(initial_kernel, deviation=sizes.deviation)
        self.attention = SelfAttention(attention, sizes)
        self.attention_dropout = Dropout(attention.scope("output"), sizes.dropout)
        self.attention_norm = LayerNorm(attention.scope("layer_norm"), sizes.width)
        self.hidden = Dense(feed_forward.scope("hidden"), sizes.width, sizes.feed_forward, initial)
        self.output = Dense(feed_forward.scope("output"), sizes.feed_forward, sizes.width, initial)
        self.dropout = Dropout(feed_forward.scope("output"), sizes.dropout)
        self.norm = LayerNorm(feed_forward.scope("layer_norm"), sizes.width)

    def __call__(self, x: tf.Tensor, bias: tf.Tensor, training: bool) -> tf.Tensor:
        """See ``SelfAttention.__call__``."""
        attended = self.attention(x, bias, training)
        x = self.attention_norm(x + self.attention_dropout(attended, training))
        return self.norm(x + self.dropout(self.output(gelu(self.hidden(x))), training))


class Transformer(tf.Module):
    """A stack of layers.

    Args:
        weights: source of fresh weights; the layers are called ``layer_0`` and so on.

    Examples:
        >>> sizes = Sizes(layers=2, width=8, heads=2, feed_forward=32)
        >>> states, visible = tf.zeros([3, 5, 8]), tf.ones([3, 5], tf.bool)
        >>> Transformer(Weights(1), sizes)(states, visible).shape
        TensorShape([3, 5, 8])
    """

    def __init__(self, weights: Weights, sizes: Sizes) -> None:
        super().__init__()
        self.layers = [TransformerLayer(weights.scope(f"layer_{number}"), sizes) for number in range(sizes.layers)]

    def __call__(self, x: tf.Tensor, visible: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Computes the states of the last layer.

        Args:
            x: ``[B, L, width]``; L is static.
            visible: bool, which positions are no padding, ``[B, L]``; or which keys each query sees, ``[B, L, L]``,
                such as those before it.
            training: whether dropout is on.

        Returns:
            ``[B, L, width]``.
        """
        bias = attention_bias(visible)
        for layer in self.layers:
            x = layer(x, bias, training)
        return x


class Encoder(tf.Module):
    """Layers of transformers; a linear layer before them if the embeddings have another width.

    Args:
        inputs: width of the embeddings.
    """

    def __init__(self, weights: Weights, inputs: int, sizes: Sizes) -> None:
        super().__init__()
        is_equal = inputs == sizes.width
        initial = partial(initial_kernel, deviation=sizes.deviation)
        self.projection = None if is_equal else Dense(weights.scope("projection"), inputs, sizes.width, initial)
        self.transformer = Transformer(weights, sizes)

    def __call__(self, embedded: tf.Tensor, visible: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Computes the states of the last layer.

        Args:
            embedded: ``[B, L, inputs]``, L static.
            visible: bool ``[B, L]``, false for padding.
            training: whether dropout is on.

        Returns:
            ``[B, L, width]``.
        """
        states = embedded if self.projection is None else self.projection(embedded)
        return self.transformer(states, visible, training)
