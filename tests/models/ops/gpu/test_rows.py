import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import as_with_gpu, training_back_end
from components.models.ops.rows import dense_gradients, look_up

TABLE = np.random.default_rng(0).normal(size=(7, 4)).astype("f")
ROWS = np.array([[1, 5], [0, 4], [1, 6], [3, 5]])
UPSTREAM = np.random.default_rng(1).normal(size=(4, 8)).astype("f")


def found_and_gradient(table: tf.Variable, dtype: tf.DType = tf.float32, has_padding: bool = False):
    with tf.GradientTape() as tape:
        found = look_up(table, tf.constant(ROWS), dtype, has_padding)
        total = tf.reduce_sum(tf.cast(found, tf.float32) * UPSTREAM)
    return found, tape.gradient(total, table)


def on_gpu(dense: bool, **given):
    table = tf.Variable(TABLE)
    with as_with_gpu(), training_back_end(), dense_gradients([table] if dense else []):
        return found_and_gradient(table, **given)


@pytest.mark.parametrize("dense", [False, True])
def test_rows_and_gradients_are_those_of_the_definition(dense: bool):
    found, gradient = on_gpu(dense)
    expected, right = found_and_gradient(tf.Variable(TABLE))
    assert isinstance(gradient, tf.IndexedSlices) != dense
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), tf.convert_to_tensor(right), atol=1e-6)


def test_the_gradient_of_padding_is_left_out():
    _, gradient = on_gpu(True, has_padding=True)
    expected = np.zeros_like(TABLE)
    for rows, values in zip(ROWS, UPSTREAM.reshape(4, 2, 4), strict=True):
        if rows[0] > 0:
            for row, value in zip(rows, values, strict=True):
                expected[row] += value
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


@pytest.mark.parametrize("dense", [False, True])
def test_in_half_precision_rows_are_gathered_and_gradients_added_up_in_single(dense: bool):
    found, gradient = on_gpu(dense, dtype=tf.float16)
    expected, _ = found_and_gradient(tf.Variable(TABLE), tf.float16)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == tf.float16 and gradient.dtype == tf.float32
