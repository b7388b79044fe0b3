"""The plugin that stands for another processor."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from tests.rounding import rounded

VALUES = np.random.default_rng(1).normal(size=(64, 5)).astype("f")


def test_another_batch_size_moves_the_last_bits_and_the_same_one_does_not() -> None:
    whole, part = rounded(tf.constant(VALUES)).numpy(), rounded(tf.constant(VALUES[:50])).numpy()
    np.testing.assert_allclose(whole, VALUES, rtol=5e-7)
    assert (whole[:50] != part).any()
    np.testing.assert_array_equal(whole, rounded(tf.constant(VALUES)))


def test_counts_and_other_types_stay() -> None:
    for exact in (tf.range(100, dtype=tf.float32) / 4, tf.constant([np.inf, 0.0]), tf.constant(VALUES, tf.float64)):
        np.testing.assert_array_equal(rounded(exact), exact)
    assert np.isnan(rounded(tf.constant([np.nan]))).all()


def test_gradients_pass_through() -> None:
    given = tf.Variable(VALUES)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(rounded(given * 2.0))
    np.testing.assert_array_equal(tape.gradient(total, given), np.full(VALUES.shape, 2.0))
