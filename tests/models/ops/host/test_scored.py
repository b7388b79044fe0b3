"""The kernels against TensorFlow's operations, which tests/models/layers compares with the formula."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.activation_unit import ActivationUnit
from components.models.layers.next_item import NextItemNetwork
from components.models.layers.weights import Weights
from components.models.ops.choice import host_back_end
from components.models.ops.host import host, scored
from tests.models.ops.host.agreement import CALL, assert_agreement, assert_same_bits, operations, results


def _normal(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(len(shape)).normal(size=shape).astype("f"))


def _sources(layer: tf.Module, given: list[tf.Tensor]) -> list[Any]:
    return [*given, *layer.trainable_variables]


def _assert_agreement(layer: tf.Module, given: list[tf.Tensor]) -> None:
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.1)  # biases are not 0
    assert_agreement(lambda: layer(*given), _sources(layer, given))


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "threads", lambda: request.param)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("steps", "samples", "width"), [(10, 130, 96), (3, 64, 16), (1, 2, 32), (2, 300, 48)])
def test_the_attention_unit_is_that_of_tensorflow(steps: int, samples: int, width: int):
    _assert_agreement(ActivationUnit(Weights(1), width), [_normal(steps, samples, width), _normal(samples, width)])


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("kinds", [1, 2, 3])
@pytest.mark.parametrize(
    ("steps", "samples", "state", "item", "hidden"),
    [(9, 130, 96, 32, (100, 50)), (3, 64, 16, 48, (16, 8)), (1, 1, 32, 16, (33, 17)), (2, 70, 16, 16, (1, 1)),
     (2, 0, 16, 16, (8, 64))],
)  # fmt: skip
def test_the_network_of_the_next_item_is_that_of_tensorflow(
    steps: int, samples: int, state: int, item: int, hidden: tuple[int, int], kinds: int
):
    network = NextItemNetwork(Weights(1), state, item, hidden)
    _assert_agreement(network, [_normal(steps + 1, samples, state), _normal(kinds, steps, samples, item)])


def test_the_same_batch_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 3)
    unit, given = ActivationUnit(Weights(1), 32), [_normal(4, 2000, 32), _normal(2000, 32)]
    assert_same_bits(lambda: unit(*given), _sources(unit, given))


def test_nan_is_not_lost():
    items = np.zeros((2, 3, 16), "f")
    items[0, 1, 4] = np.nan
    unit, given = ActivationUnit(Weights(1), 16), [tf.constant(items), tf.zeros([3, 16])]
    scores, of_items, *_ = results(lambda: unit(*given), _sources(unit, given))
    assert np.isnan(scores[0, 1]) and np.isfinite(scores).sum() == 5
    assert np.isnan(of_items[0, 1]).all() and np.isfinite(of_items[:, ::2]).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: (ActivationUnit(Weights(1), 24), [_normal(2, 3, 24), _normal(3, 24)]),
        lambda: (NextItemNetwork(Weights(1), 16, 24, (8, 8)), [_normal(2, 3, 16), _normal(2, 1, 3, 24)]),
        lambda: (NextItemNetwork(Weights(1), 16, 16, (8, 8, 8)), [_normal(2, 3, 16), _normal(2, 1, 3, 16)]),
    ],
    ids=["width", "item", "depth"],
)
def test_what_does_not_fit_is_left_to_tensorflow(make: Callable):
    layer, given = make()
    expected = layer(*given)
    with host_back_end():
        scores = tf.function(layer, autograph=False)
        assert CALL not in operations(scores, *given)
        np.testing.assert_allclose(scores(*given), expected, rtol=1e-5, atol=1e-6)


def test_mixed_precision_is_left_to_tensorflow():
    operands = [tf.zeros([2, 3, 16], tf.float16), tf.zeros([1, 2, 3, 16], tf.float16)]
    weights = [tf.zeros(shape) for shape in ([8], [16, 8], [16, 8], [8, 4], [4], [4, 1], [1])]
    assert scored.score_pairs(*operands, *weights) is NotImplemented
