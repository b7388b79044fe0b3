"""Embeddings of tokens against NumPy, and their gradient."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.token_embeddings import TokenEmbeddings
from components.models.layers.weights import Weights

TOKENS = np.array([[2, 7, 7, 3, 0], [2, 9, 3, 0, 0]])
SEGMENTS = np.array([[0, 0, 1, 1, 0], [0, 0, 0, 0, 0]])


@pytest.fixture
def embed() -> TokenEmbeddings:
    return TokenEmbeddings(Weights(1), vocabulary=10, positions=6, width=4)


def test_embeddings_are_normalized_sums(embed: TokenEmbeddings) -> None:
    found = embed(tf.constant(TOKENS), tf.constant(SEGMENTS)).numpy()
    sums = embed.words.numpy()[TOKENS] + embed.positions.numpy()[:5] + embed.segments.numpy()[SEGMENTS]
    expected = (sums - sums.mean(-1, keepdims=True)) / sums.std(-1, keepdims=True)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_the_table_is_filled_up_to_a_multiple_of_eight_that_no_id_reads(embed: TokenEmbeddings) -> None:
    assert embed.words.shape == (16, 4)
    outside = embed(tf.constant([[10, 15, -1, 0, 0]]), tf.zeros([1, 5], tf.int32))
    np.testing.assert_array_equal(outside, embed(tf.zeros([1, 5], tf.int32), tf.zeros([1, 5], tf.int32)))


def test_the_gradient_is_dense_and_adds_equal_tokens_up(embed: TokenEmbeddings) -> None:
    upstream = np.random.default_rng(0).normal(size=(2, 5, 4)).astype("f")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(embed(tf.constant(TOKENS), tf.constant(SEGMENTS)) * upstream)
    words, positions, segments = tape.gradient(loss, [embed.words, embed.positions, embed.segments])
    assert isinstance(words, tf.Tensor) and isinstance(segments, tf.Tensor)
    with tf.GradientTape() as tape:
        sums = tf.gather(embed.words, TOKENS) + embed.positions[:5] + tf.gather(embed.segments, SEGMENTS)
        loss = tf.reduce_sum(embed.norm(sums) * upstream)
    expected = tape.gradient(loss, [embed.words, embed.positions, embed.segments])
    for found, wanted in zip((words, positions, segments), expected, strict=True):
        np.testing.assert_allclose(found, tf.convert_to_tensor(wanted), rtol=1e-3, atol=1e-3)
