"""Transformer layers against NumPy, and what the positions of a sequence see."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf

from components.models.draws import draws_at
from components.models.layers.transformer import Sizes, Transformer, TransformerLayer, attention_bias
from components.models.layers.weights import Weights

SIZES = Sizes(layers=2, width=8, heads=2, feed_forward=12)


def dense(layer, x):
    return x @ layer.kernel.numpy() + layer.bias.numpy()


def normalized(layer, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / x.std(-1, keepdims=True) * layer.gamma.numpy() + layer.beta.numpy()


def by_hand(layer: TransformerLayer, x: np.ndarray, visible: np.ndarray, heads: int = 2) -> np.ndarray:
    """One sequence ``[L, width]``, head by head and query by query; ``visible`` is ``[L, L]``."""
    attention, size = layer.attention, x.shape[1] // heads
    query, key, value = (dense(each, x) for each in (attention.query, attention.key, attention.value))
    mixed = np.zeros_like(x)
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        for place in range(len(x)):
            scores = key[:, part] @ query[place, part] / math.sqrt(size)
            weights = np.exp(scores) * visible[place]
            mixed[place, part] = weights @ value[:, part] / weights.sum()
    y = normalized(layer.attention_norm, x + dense(attention.output, mixed))
    hidden = dense(layer.hidden, y)
    hidden = hidden * 0.5 * (1 + np.vectorize(math.erf)(hidden / math.sqrt(2)))
    return normalized(layer.norm, y + dense(layer.output, hidden))


def random_layer() -> TransformerLayer:
    layer = TransformerLayer(Weights(1), SIZES)
    for variable in layer.variables:
        variable.assign(np.random.default_rng(variable.shape[0]).normal(size=variable.shape) * 0.5)
    return layer


@pytest.mark.parametrize("causal", [False, True])
def test_a_layer_is_its_formula(causal: bool) -> None:
    layer, x = random_layer(), np.random.default_rng(0).normal(size=(3, 6, 8)).astype("f")
    is_token = np.arange(6) < np.array([[6], [4], [1]])
    visible = is_token[:, np.newaxis] & (np.tri(6, dtype=bool) if causal else np.ones((6, 6), bool))
    found = layer(tf.constant(x), attention_bias(tf.constant(visible if causal else is_token)), training=False)
    for row in range(3):
        np.testing.assert_allclose(found[row], by_hand(layer, x[row], visible[row]), rtol=1e-4, atol=1e-5)


def test_padding_changes_no_other_state() -> None:
    stack, x = Transformer(Weights(1), SIZES), np.random.default_rng(0).normal(size=(1, 6, 8)).astype("f")
    visible = tf.constant([[True] * 4 + [False] * 2])
    changed = x.copy()
    changed[:, 4:] += 7
    first, second = (stack(tf.constant(each), visible).numpy() for each in (x, changed))
    np.testing.assert_allclose(first[:, :4], second[:, :4], atol=1e-6)
    assert not np.allclose(first[:, 4:], second[:, 4:])


def test_a_sequence_of_padding_gives_numbers() -> None:
    found = Transformer(Weights(1), SIZES)(tf.zeros([2, 5, 8]), tf.zeros([2, 5], tf.bool))
    assert np.isfinite(found).all()


def test_dropout_acts_in_training_alone() -> None:
    stack = Transformer(Weights(1), SIZES._replace(dropout=0.3, attention_dropout=0.3))
    x, visible = tf.ones([2, 5, 8]) * tf.range(8.0), tf.ones([2, 5], tf.bool)
    scored = stack(x, visible)
    np.testing.assert_array_equal(scored, stack(x, visible))
    with draws_at(1):
        assert not np.allclose(stack(x, visible, training=True), scored)


def test_half_precision_is_close() -> None:
    stack, x = Transformer(Weights(1), SIZES), np.random.default_rng(0).normal(size=(2, 6, 8)).astype("f")
    visible = tf.ones([2, 6], tf.bool)
    found = stack(tf.constant(x, tf.float16), visible)
    assert found.dtype == tf.float16
    np.testing.assert_allclose(found, stack(tf.constant(x), visible), atol=0.02)
