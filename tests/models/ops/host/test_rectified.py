"""The kernels against TensorFlow's operations."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.classifier import Classifier
from components.models.layers.dense import Dense
from components.models.layers.prelu import PReLU, rectified_layers
from components.models.layers.weights import Weights
from components.models.ops.choice import host_back_end
from components.models.ops.host import host, rectified

CALL = "PyFuncStateless"
Layers = list[tuple[Dense, PReLU]]


def _layers(inputs: int, *units: int) -> Layers:
    random = np.random.default_rng(inputs)
    layers = []
    for below, above in zip((inputs, *units), units, strict=False):
        layer = Dense(Weights(above), below, above), PReLU(Weights(1), above)
        layer[0].bias.assign(random.normal(size=above).astype("f"))
        layer[1].alpha.assign(random.normal(size=above).astype("f"))
        layers.append(layer)
    return layers


def _output(units: int) -> Dense:
    output = Dense(Weights(7), units, 1)
    output.bias.assign([0.3])
    return output


def _results(layers: Layers, x: tf.Tensor, allowed: bool, output: Dense | None = None) -> list[np.ndarray]:
    """The result, and the gradients of what it comes from."""
    sources = [x, *(part for dense, prelu in layers for part in (dense.kernel, dense.bias, prelu.alpha))]
    sources += [output.kernel, output.bias] if output else []

    @tf.function(autograph=False)
    def compute() -> list[tf.Tensor]:
        with host_back_end(allowed), tf.GradientTape() as tape:
            tape.watch(x)
            result = rectified_layers(x, layers, output)
            weights = tf.cos(tf.cast(tf.reshape(tf.range(tf.size(result)), tf.shape(result)), tf.float32))
            loss = tf.reduce_sum(result * weights)
        return [result, *tape.gradient(loss, sources)]

    operations = {node.type for node in compute.get_concrete_function().graph.get_operations()}
    assert (CALL in operations) == allowed
    return [values.numpy() for values in compute()]


@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("rows", "inputs", "units"),
    [(130, 208, (200, 80)), (1, 80, (200,)), (64, 32, (96,)), (200, 16, (1, 33, 7)), (0, 16, (5,))],
)
def test_it_is_that_of_tensorflow(
    rows: int, inputs: int, units: tuple[int, ...], threads: int, scored: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(host, "threads", lambda: threads)
    x = tf.constant(np.random.default_rng(rows).normal(size=(rows, inputs)).astype("f"))
    layers, output = _layers(inputs, *units), _output(units[-1]) if scored else None
    for own, expected in zip(*(_results(layers, x, allowed, output) for allowed in (True, False)), strict=True):
        assert own.shape == expected.shape
        np.testing.assert_allclose(own, expected, atol=1e-5 * max(np.abs(expected).max(initial=0), 1))


def test_at_zero_the_gradient_is_zero_as_that_of_tensorflow():
    layers = [(Dense(Weights(1), 16, 3), PReLU(Weights(1), 3))]
    for own, expected in zip(*(_results(layers, tf.zeros([4, 16]), allowed) for allowed in (True, False)), strict=True):
        np.testing.assert_array_equal(own, expected)
        assert not own.any()


def test_the_same_batch_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 3)
    layers, x = _layers(48, 40, 24), tf.constant(np.random.default_rng(1).normal(size=(3000, 48)).astype("f"))
    first = _results(layers, x, True)
    for _ in range(5):
        for one, other in zip(first, _results(layers, x, True), strict=True):
            np.testing.assert_array_equal(one, other)


def test_what_is_no_number_stays_with_its_sample():
    x = np.ones((5, 16), "f")
    x[1, 3], x[2, 0] = np.nan, np.inf
    for output in (None, _output(8)):
        result, of_x, of_kernel, _, of_alpha, *_ = _results(_layers(16, 8), tf.constant(x), True, output)
        assert np.isnan(result[1]).all() and not np.isfinite(result[2]).any()
        assert np.isfinite(result[[0, 3, 4]]).all() and np.isfinite(of_x[[0, 3, 4]]).all()
        assert np.isnan(of_kernel[3]).all() and np.isnan(of_alpha).all()  # and is not lost


def test_dropout_leaves_the_layers_to_the_kernels():
    classifier = Classifier(Weights(1), 16, (32, 8), dropout_rate=0.5)
    with host_back_end():
        score = tf.function(lambda x: classifier(x, training=True), autograph=False)
        operations = [node.type for node in score.get_concrete_function(tf.zeros([3, 16])).graph.get_operations()]
    assert operations.count(CALL) == 2


@pytest.mark.parametrize("x", [tf.zeros([2, 24]), tf.zeros([2, 16], tf.float16), tf.zeros([2, 2, 16])])
def test_what_does_not_fit_is_left_to_tensorflow(x: tf.Tensor):
    assert rectified.rectified_layers(x, tf.zeros([x.shape[-1], 8]), tf.zeros([8]), tf.zeros([8])) is NotImplemented
