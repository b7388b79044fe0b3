"""Dense layers with rectifiers against NumPy, and what their weights start from."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.mlp import Mlp
from components.models.layers.weights import Weights


@pytest.mark.parametrize("linear", [False, True])
def test_layers_are_rectified_products_and_the_output_may_be_linear(linear):
    mlp = Mlp(Weights(1), 5, (7, 3), linear_output=linear)
    x = np.random.default_rng(0).normal(size=(6, 5)).astype("f")
    hidden = np.maximum(x @ mlp.kernels[0].numpy() + mlp.biases[0].numpy(), 0)
    out = hidden @ mlp.kernels[1].numpy() + mlp.biases[1].numpy()
    np.testing.assert_allclose(mlp(tf.constant(x)), out if linear else np.maximum(out, 0), rtol=1e-5, atol=1e-6)


def test_a_linear_output_is_float32_among_layers_of_float16():
    assert Mlp(Weights(1), 5, (7, 1), linear_output=True)(tf.zeros([2, 5], tf.float16)).dtype == tf.float32
    assert Mlp(Weights(1), 5, (7, 1))(tf.zeros([2, 5], tf.float16)).dtype == tf.float16


def test_weights_have_the_published_deviations():
    mlp = Mlp(Weights(1), 300, (500, 4000))
    assert np.std(mlp.kernels[0]) == pytest.approx((2 / 800) ** 0.5, rel=0.02)
    assert np.std(mlp.biases[1]) == pytest.approx((1 / 4000) ** 0.5, rel=0.05)
