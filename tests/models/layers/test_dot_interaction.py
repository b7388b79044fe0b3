"""The dot products of pairs, and their gradient, against loops."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.dot_interaction import dot_interaction


def vectors(count: int, rows: int = 5, width: int = 4) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [random.normal(size=(rows, width)).astype("f") for _ in range(count)]


def by_hand(given: list[np.ndarray]) -> np.ndarray:
    pairs = [(given[i] * given[j]).sum(1) for i in range(len(given)) for j in range(i)]
    return np.stack(pairs, 1) if pairs else np.zeros((len(given[0]), 0))


@pytest.mark.parametrize("count", [1, 2, 3, 27])
def test_each_pair_is_multiplied_once_in_the_order_of_the_rows(count):
    given = vectors(count)
    np.testing.assert_allclose(dot_interaction([tf.constant(v) for v in given]), by_hand(given), atol=1e-5)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_gradient_is_that_of_the_sum_of_products(count, compiled):
    given = vectors(count)
    upstream = np.random.default_rng(2).normal(size=by_hand(given).shape).astype("f")
    variables = [tf.Variable(v) for v in given]

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(dot_interaction(variables) * upstream)
        return tape.gradient(loss, variables)

    expected = [np.zeros_like(v) for v in given]
    for column, (i, j) in enumerate(zip(*np.tril_indices(count, -1), strict=True)):
        expected[i] += upstream[:, column, None] * given[j]
        expected[j] += upstream[:, column, None] * given[i]
    for gradient, wanted in zip((tf.function(step) if compiled else step)(), expected, strict=True):
        np.testing.assert_allclose(gradient, wanted, atol=1e-5)


def test_a_batch_may_be_empty_and_in_float16():
    assert dot_interaction([tf.zeros([0, 4])] * 3).shape == (0, 3)
    assert dot_interaction([tf.zeros([2, 4], tf.float16)] * 3).dtype == tf.float16
