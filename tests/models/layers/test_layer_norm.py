"""Layer normalisation against NumPy."""

import numpy as np
import tensorflow as tf

from components.models.layers.layer_norm import LayerNorm
from components.models.layers.weights import Weights


def test_each_row_is_centred_scaled_and_moved():
    layer, x = LayerNorm(Weights(1), 5), np.random.default_rng(0).normal(3, 2, (4, 3, 5)).astype("f")
    layer.gamma.assign([1, 2, 3, 4, 5])
    layer.beta.assign([5, 4, 3, 2, 1])
    expected = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True) * [1, 2, 3, 4, 5] + [5, 4, 3, 2, 1]
    np.testing.assert_allclose(layer(tf.constant(x)), expected, rtol=1e-4, atol=1e-5)


def test_large_values_of_float16_do_not_overflow():
    x = tf.constant([[3000.0, -3000.0, 1000.0, 2000.0]], tf.float16)  # squares are above 65504
    found = LayerNorm(Weights(1), 4)(x)
    assert found.dtype == tf.float16
    expected = (x.numpy().astype("d") - 750) / x.numpy().astype("d").std()
    np.testing.assert_allclose(found, expected, rtol=5e-3)
