"""The kernels against TensorFlow's operations, which tests/models/layers compares with the formula."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.activation_unit import ActivationUnit
from components.models.layers.next_item import NextItemNetwork
from components.models.layers.weights import Weights
from components.models.ops.choice import host_back_end
from components.models.ops.host import host, scored

CALL = "PyFuncStateless"


def _normal(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(len(shape)).normal(size=shape).astype("f"))


def _results(layer: tf.Module, given: list[tf.Tensor], allowed: bool) -> list[np.ndarray]:
    """Scores, and the gradients of everything they come from."""

    @tf.function(autograph=False)
    def compute() -> list[tf.Tensor]:
        with host_back_end(allowed), tf.GradientTape() as tape:
            tape.watch(given)
            scores = layer(*given)
            weights = tf.cos(tf.cast(tf.reshape(tf.range(tf.size(scores)), tf.shape(scores)), tf.float32))
            loss = tf.reduce_sum(scores * weights)
        return [scores, *tape.gradient(loss, [*given, *layer.trainable_variables], unconnected_gradients="zero")]

    operations = {node.type for node in compute.get_concrete_function().graph.get_operations()}
    assert (CALL in operations) == allowed
    return [result.numpy() for result in compute()]


def _agree(layer: tf.Module, given: list[tf.Tensor]) -> None:
    for variable in layer.trainable_variables:
        variable.assign(variable + 0.1)  # biases are not 0
    expected, own = (_results(layer, given, allowed) for allowed in (False, True))
    for right, mine in zip(expected, own, strict=True):
        assert mine.shape == right.shape
        np.testing.assert_allclose(mine, right, atol=1e-5 * max(np.abs(right).max(initial=0), 1))


@pytest.fixture(params=[1, 3])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "threads", lambda: request.param)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize(("steps", "samples", "width"), [(10, 130, 96), (3, 64, 16), (1, 2, 32), (2, 300, 48)])
def test_the_attention_unit_is_that_of_tensorflow(steps: int, samples: int, width: int):
    _agree(ActivationUnit(Weights(1), width), [_normal(steps, samples, width), _normal(samples, width)])


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
    _agree(network, [_normal(steps + 1, samples, state), _normal(kinds, steps, samples, item)])


def test_the_same_batch_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(host, "threads", lambda: 3)
    unit, given = ActivationUnit(Weights(1), 32), [_normal(4, 2000, 32), _normal(2000, 32)]
    first = _results(unit, given, True)
    for _ in range(5):
        for one, other in zip(first, _results(unit, given, True), strict=True):
            np.testing.assert_array_equal(one, other)


def test_nan_is_not_lost():
    items = np.zeros((2, 3, 16), "f")
    items[0, 1, 4] = np.nan
    unit = ActivationUnit(Weights(1), 16)
    scores, of_items, *_ = _results(unit, [tf.constant(items), tf.zeros([3, 16])], True)
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
        graph = scores.get_concrete_function(*given).graph
        np.testing.assert_allclose(scores(*given), expected, rtol=1e-6)
    assert CALL not in {node.type for node in graph.get_operations()}


def test_mixed_precision_is_left_to_tensorflow():
    operands = [tf.zeros([2, 3, 16], tf.float16), tf.zeros([1, 2, 3, 16], tf.float16)]
    weights = [tf.zeros(shape) for shape in ([8], [16, 8], [16, 8], [8, 4], [4], [4, 1], [1])]
    assert scored.score_pairs(*operands, *weights) is NotImplemented
