"""The kernels against TensorFlow's operations."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.models.draws import draws_at
from components.models.layers.classifier import Classifier
from components.models.layers.dense import Dense
from components.models.layers.prelu import PReLU, rectified_layers
from components.models.layers.weights import Weights
from components.models.ops.choice import host_back_end
from components.models.ops.host import host, rectified
from tests.models.ops.host.agreement import CALL, assert_agreement, assert_same_bits, operations, results

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


def _sources(x: tf.Tensor, layers: Layers, output: Dense | None = None) -> list[Any]:
    sources = [x, *(part for dense, prelu in layers for part in (dense.kernel, dense.bias, prelu.alpha))]
    return sources + ([output.kernel, output.bias] if output else [])


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
    assert_agreement(lambda: rectified_layers(x, layers, output), _sources(x, layers, output))


def test_at_zero_the_gradient_is_zero_as_that_of_tensorflow():
    layers, x = [(Dense(Weights(1), 16, 3), PReLU(Weights(1), 3))], tf.zeros([4, 16])
    found = (results(lambda: rectified_layers(x, layers), _sources(x, layers), allowed) for allowed in (True, False))
    for own, expected in zip(*found, strict=True):
        np.testing.assert_array_equal(own, expected)
        assert not own.any()


def test_the_same_batch_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 3)
    layers, x = _layers(48, 40, 24), tf.constant(np.random.default_rng(1).normal(size=(3000, 48)).astype("f"))
    assert_same_bits(lambda: rectified_layers(x, layers), _sources(x, layers))


@pytest.mark.parametrize("scored", [False, True])
def test_what_is_no_number_stays_with_its_sample(scored: bool):
    x = np.ones((5, 16), "f")
    x[1, 3], x[2, 0] = np.nan, np.inf
    given, layers, output = tf.constant(x), _layers(16, 8), _output(8) if scored else None
    result, of_x, of_kernel, _, of_alpha, *_ = results(
        lambda: rectified_layers(given, layers, output), _sources(given, layers, output)
    )
    assert np.isnan(result[1]).all() and not np.isfinite(result[2]).any()
    assert np.isfinite(result[[0, 3, 4]]).all() and np.isfinite(of_x[[0, 3, 4]]).all()
    assert np.isnan(of_kernel[3]).all() and np.isnan(of_alpha).all()  # and is not lost


def test_dropout_leaves_the_layers_to_the_kernels():
    classifier = Classifier(Weights(1), 16, (32, 8), dropout_rate=0.5)
    with host_back_end(), draws_at(1):
        score = tf.function(lambda x: classifier(x, training=True), autograph=False)
        assert operations(score, tf.zeros([3, 16])).count(CALL) == 2


@pytest.mark.parametrize("x", [tf.zeros([2, 24]), tf.zeros([2, 16], tf.float16), tf.zeros([2, 2, 16])])
def test_what_does_not_fit_is_left_to_tensorflow(x: tf.Tensor):
    assert rectified.rectified_layers(x, tf.zeros([x.shape[-1], 8]), tf.zeros([8]), tf.zeros([8])) is NotImplemented
