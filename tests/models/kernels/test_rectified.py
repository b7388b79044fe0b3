"""The kernels against TensorFlow's operations."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.kernels import host, rectified
from components.models.layers.prelu import PReLU
from components.models.layers.weights import Weights


def _results(layer: PReLU, x: tf.Tensor, allowed: bool) -> list[np.ndarray]:
    """The result, and the gradients of what it comes from."""

    @tf.function(autograph=False)
    def compute() -> list[tf.Tensor]:
        with host.host_kernels(allowed), tf.GradientTape() as tape:
            tape.watch(x)
            result = layer(x)
            weights = tf.cos(tf.cast(tf.reshape(tf.range(tf.size(result)), tf.shape(result)), tf.float32))
            loss = tf.reduce_sum(result * weights)
        return [result, *tape.gradient(loss, [x, layer.alpha])]

    operations = {node.type for node in compute.get_concrete_function().graph.get_operations()}
    assert ("PyFuncStateless" in operations) == allowed
    return [values.numpy() for values in compute()]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("rows", "units"), [(130, 200), (1, 80), (7, 1), (40, 33), (0, 16)])
def test_it_is_that_of_tensorflow(rows: int, units: int, threads: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: threads)
    random = np.random.default_rng(rows)
    layer = PReLU(Weights(1), units)
    layer.alpha.assign(random.normal(size=units).astype("f"))
    x = random.normal(size=(rows, units)).astype("f")
    x[::3] = 0.0
    for own, expected in zip(*(_results(layer, tf.constant(x), allowed) for allowed in (True, False)), strict=True):
        assert own.shape == expected.shape
        np.testing.assert_allclose(own, expected, rtol=1e-5, atol=1e-5)


def test_nan_is_not_lost():
    result, of_x, of_alpha = _results(PReLU(Weights(1), 2), tf.constant([[np.nan, 1.0], [2.0, -3.0]]), True)
    np.testing.assert_allclose(result, [[np.nan, 1.0], [2.0, -0.3]])
    assert np.isnan(of_alpha[0]) and np.isfinite(of_alpha[1]) and np.isfinite(of_x[1]).all()


def test_mixed_precision_is_left_to_tensorflow():
    with host.host_kernels():
        assert rectified.fits(tf.zeros([2, 3])) and not rectified.fits(tf.zeros([2, 3], tf.float16))
    assert not rectified.fits(tf.zeros([2, 3]))
