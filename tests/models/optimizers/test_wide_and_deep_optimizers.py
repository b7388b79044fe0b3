"""FTRL and RMSProp against TensorFlow's operation and Keras, over steps that name some rows and name them twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from components.models import make_optimizer
from components.models.ops.scaling import Scaling

ROWS, WIDTH, STEPS = 12, 3, 70


def _gradients(sparse: bool) -> list[Any]:
    """Of each step; a third of the rows, some of them twice, or all."""
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(STEPS):
        rows = random.integers(0, ROWS, 6)
        values = random.normal(0, 0.5, (6, WIDTH)).astype("f")
        slices = tf.IndexedSlices(tf.constant(values), tf.constant(rows), tf.constant([ROWS, WIDTH]))
        drawn.append(slices if sparse else tf.convert_to_tensor(slices))
    return drawn


def _moved(name: str, gradients: list[Any], start: np.ndarray, compiled: bool = False, **settings: float) -> np.ndarray:
    optimizer, variable = make_optimizer(name, 0.05, **settings), tf.Variable(start)
    apply: Callable = tf.function(optimizer.apply) if compiled else optimizer.apply
    for gradient in gradients:
        apply([(gradient, variable)])
    return variable.numpy()


def _ftrl_of_tensorflow(gradients: list[Any], start: np.ndarray) -> np.ndarray:
    """The operation with z, on dense gradients; z starts where it belongs to the weights."""
    accumulator = tf.Variable(tf.fill([ROWS, WIDTH], 0.1))
    variable = tf.Variable(start)
    linear = tf.Variable(-start * np.sqrt(np.float32(0.1)) / np.float32(0.05))
    for gradient in gradients:
        tf.raw_ops.ResourceApplyFtrl(
            var=variable.handle, accum=accumulator.handle, linear=linear.handle, grad=tf.convert_to_tensor(gradient),
            lr=0.05, l1=0.0, l2=0.0, lr_power=-0.5,
        )  # fmt: skip
    return variable.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("scale", [0.0, 1.0], ids=["from 0", "from weights"])
def test_ftrl_is_tensorflows_without_its_second_state(sparse: bool, compiled: bool, scale: float) -> None:
    start = scale * np.random.default_rng(2).normal(size=(ROWS, WIDTH)).astype("f")
    gradients = _gradients(sparse)
    moved = _moved("ftrl", gradients, start, compiled)
    np.testing.assert_allclose(moved, _ftrl_of_tensorflow(gradients, start), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("rho", [0.01, 0.5, 0.9])
def test_rmsprop_is_keras(sparse: bool, compiled: bool, rho: float) -> None:
    start = np.random.default_rng(2).normal(size=(ROWS, WIDTH)).astype("f")
    keras, variable = tf_keras.optimizers.legacy.RMSprop(0.05, rho), tf.Variable(start)
    for gradient in _gradients(sparse=False):
        keras.apply_gradients([(gradient, variable)])
    moved = _moved("rmsprop", _gradients(sparse), start, compiled, rho=rho)
    np.testing.assert_allclose(moved, variable, rtol=1e-4, atol=1e-6)


def test_steps_that_are_not_allowed_leave_rmsprop_where_it_was() -> None:
    start, gradients = np.ones((ROWS, WIDTH), "f"), _gradients(sparse=True)
    optimizer: Any = make_optimizer("rmsprop", lambda step: 0.05 / (1.0 + step), rho=0.5)
    variable = tf.Variable(start)
    # Every second call is skipped, so that the state is scaled anew after 15 steps.
    for gradient in gradients:
        optimizer.apply([(gradient, variable)], Scaling(tf.constant(1.0), tf.constant(True)))
        broken = tf.IndexedSlices(gradient.values * np.inf, gradient.indices, gradient.dense_shape)
        optimizer.apply([(broken, variable)], Scaling(tf.constant(0.0), tf.constant(False)))
    undisturbed, expected = make_optimizer("rmsprop", lambda step: 0.05 / (1.0 + step), rho=0.5), tf.Variable(start)
    for gradient in gradients:
        undisturbed.apply([(gradient, expected)])
    np.testing.assert_allclose(variable, expected, rtol=1e-5)


@pytest.mark.parametrize("name", ["ftrl", "rmsprop"])
def test_rows_may_come_as_slices_in_one_step_and_whole_in_the_next(name: str) -> None:
    start = np.ones((ROWS, WIDTH), "f")
    mixed = [tf.convert_to_tensor(each) if step % 3 else each for step, each in enumerate(_gradients(sparse=True))]
    whole = _moved(name, _gradients(sparse=False), start)
    np.testing.assert_allclose(_moved(name, mixed, start), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["ftrl", "rmsprop"])
def test_a_row_that_no_gradient_names_stays(name: str) -> None:
    slices = tf.IndexedSlices(tf.ones([2, WIDTH]), tf.constant([3, 3]), tf.constant([ROWS, WIDTH]))
    moved = _moved(name, [slices] * 3, np.ones((ROWS, WIDTH), "f"))
    assert np.flatnonzero((moved != 1).any(axis=1)).tolist() == [3]


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("name", ["ftrl", "rmsprop"])
def test_variables_have_any_shape(name: str, shape: tuple[int, ...]) -> None:
    moved = _moved(name, [tf.ones(shape)] * 2, np.zeros(shape, "f"))
    assert moved.shape == shape and (moved < 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adam", "lazy_adam", "ftrl", "rmsprop"])
def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened(name: str, tmp_path: Any) -> None:
    start, gradients = np.ones((ROWS, WIDTH), "f"), _gradients(sparse=True)
    variable, optimizer = tf.Variable(start), make_optimizer(name, 0.05)
    for gradient in gradients[:9]:
        optimizer.apply([(gradient, variable)])
    saved = tf.train.Checkpoint(variable=variable, optimizer=optimizer).save(str(tmp_path / "checkpoint"))
    variable, optimizer = tf.Variable(0 * start), make_optimizer(name, 0.05)
    optimizer.build([variable])
    tf.train.Checkpoint(variable=variable, optimizer=optimizer).restore(saved).assert_consumed()
    for gradient in gradients[9:]:
        optimizer.apply([(gradient, variable)])
    np.testing.assert_array_equal(variable, _moved(name, gradients, start))
