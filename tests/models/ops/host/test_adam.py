"""The kernel's step of Adam, against TensorFlow's on the dense gradient."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import host_back_end
from components.models.ops.host import host
from components.models.optimizers.adam import Adam
from tests.models.ops.host.agreement import CALL, operations

WIDTH = 32


def _gradient(rows: int, named: list[int], seed: int) -> tf.IndexedSlices:
    values = np.random.default_rng(seed).normal(size=(len(named), WIDTH)).astype("f")
    return tf.IndexedSlices(tf.constant(values), tf.constant(named, tf.int32), tf.constant([rows, WIDTH]))


def _trained(rows: int, gradients: list[tf.IndexedSlices], allowed: bool, decay: float = 0.0) -> list[np.ndarray]:
    """Weights and moments after a step with each gradient."""
    optimizer = Adam(0.1, decay)
    weights = tf.Variable(np.random.default_rng(rows).normal(size=(rows, WIDTH)).astype("f"))
    optimizer.build([weights])

    @tf.function(autograph=False)
    def step(values: tf.Tensor, indices: tf.Tensor) -> None:
        with host_back_end(allowed):
            optimizer.apply([(tf.IndexedSlices(values, indices, tf.constant([rows, WIDTH])), weights)])

    for gradient in gradients:
        step(gradient.values, gradient.indices)
    used = operations(step, gradient.values, gradient.indices)
    assert (CALL in used, "ResourceApplyAdam" in used) == (allowed, not allowed)
    return [table.numpy() for table in (weights, *optimizer.moments[0])]


@pytest.mark.parametrize("decay", [0.0, 0.5])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "named", [[], [0], [6], [6, 0, 3, 3, 0], list(range(7))], ids=["none", "first", "last", "twice", "all"]
)
def test_every_row_moves_as_by_tensorflow(
    named: list[int], threads: int, decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "threads", lambda: threads)
    gradients = [_gradient(7, [1, 5], 1), _gradient(7, named, 2), _gradient(7, [2], 3)]
    expected = _trained(7, gradients, False, decay)
    for ours, theirs in zip(_trained(7, gradients, True, decay), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_values_that_were_read_before_a_step_stay_what_they_were() -> None:
    optimizer, weights = Adam(0.1), tf.Variable(tf.ones([1000, WIDTH]))
    optimizer.build([weights])

    @tf.function(autograph=False)
    def step() -> None:
        with host_back_end():
            optimizer.apply([(_gradient(1000, [4], 1), weights)])

    step()
    before, copy = weights.read_value(), weights.numpy().copy()
    for _ in range(5):
        step()
    np.testing.assert_array_equal(before, copy)
    assert not np.array_equal(weights.numpy()[4], copy[4])


def test_a_moment_that_fades_becomes_zero_before_it_slows_the_processor_down() -> None:
    optimizer, weights = Adam(0.1), tf.Variable(tf.ones([3, WIDTH]))
    optimizer.build([weights])
    for moment in optimizer.moments[0]:
        moment.assign([[1.2e-38] * WIDTH, [np.nan] * WIDTH, [1.0] * WIDTH])

    @tf.function(autograph=False)
    def step() -> None:
        with host_back_end():
            optimizer.apply([(_gradient(3, [], 1), weights)])

    step()
    first, second = (moment.numpy() for moment in optimizer.moments[0])
    assert not first[0].any()
    assert np.isnan(first[1]).all() and np.isnan(second[1]).all() and np.isnan(weights.numpy()[1]).all()
    np.testing.assert_allclose(first[2], 0.9, rtol=1e-6)


def test_a_table_may_have_any_number_of_rows() -> None:
    for rows in (63, 64, 65, 200):
        gradients = [_gradient(rows, [rows - 1, 0, 62, 5, 5], 1), _gradient(rows, list(range(0, rows, 3)), 2)]
        expected = _trained(rows, gradients, False)
        for ours, theirs in zip(_trained(rows, gradients, True), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
