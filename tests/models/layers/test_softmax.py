"""The softmax over the rows of a table, against TensorFlow's own."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from components.models.layers.softmax import cross_entropy_of_rows


def test_losses_and_gradients_are_those_of_tensorflow() -> None:
    random = np.random.default_rng(1)
    states, table = (tf.constant(random.normal(size=(size, 8)) * 3, tf.float32) for size in (40, 60))
    rows, weights = tf.constant(random.integers(0, 60, 40), tf.int32), tf.constant(random.random(40), tf.float32)
    found = []
    for loss in (
        cross_entropy_of_rows,
        lambda states, table, rows: tf.nn.sparse_softmax_cross_entropy_with_logits(
            rows, tf.matmul(states, table, transpose_b=True)
        ),
    ):
        with tf.GradientTape() as tape:
            tape.watch([states, table])
            losses = loss(states, table, rows)
            total = tf.reduce_sum(weights * losses)
        found.append([losses, *tape.gradient(total, [states, table])])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_nothing_has_no_loss() -> None:
    states = tf.zeros([0, 4])
    with tf.GradientTape() as tape:
        tape.watch(states)
        loss = tf.reduce_sum(cross_entropy_of_rows(states, tf.ones([5, 4]), tf.zeros([0], tf.int32)))
    assert float(loss) == 0 and tape.gradient(loss, states).shape == (0, 4)
