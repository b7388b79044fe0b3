from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.models import make_optimizer

START = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], "f")
# Row 2 twice, row 1 never.
SPARSE = ([2, 0, 2], np.array([[0.5, -1.0], [0.25, 2.0], [1.0, 0.5]], "f"))
DENSE = np.array([[0.25, 2.0], [0.0, 0.0], [1.5, -0.5]], "f")


def _sparse() -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.constant(SPARSE[1]), tf.constant(SPARSE[0]), tf.constant([3, 2]))


def _run(name: str, gradients: list, compiled: bool = False, **parameters: float) -> np.ndarray:
    optimizer = make_optimizer(name, 0.1, **parameters)
    variable = tf.Variable(START)
    apply: Callable = tf.function(optimizer.apply) if compiled else optimizer.apply
    for gradient in gradients:
        apply([(gradient, variable)])
    return variable.numpy()


def _adam(gradients: list[np.ndarray], rows: list[list[int]], decay: float = 0.0) -> np.ndarray:
    """Adam's formula, row by row; ``rows`` names those that move in each step."""
    w, m, v = START.astype("d"), np.zeros((3, 2)), np.zeros((3, 2))
    for step, (gradient, moving) in enumerate(zip(gradients, rows, strict=True), 1):
        for row in moving:
            m[row] = 0.9 * m[row] + 0.1 * gradient[row]
            v[row] = 0.999 * v[row] + 0.001 * gradient[row] ** 2
            w[row] -= decay * w[row]
            w[row] -= 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step) * m[row] / (np.sqrt(v[row]) + 1e-7)
    return w


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("gradient", [_sparse(), tf.constant(DENSE)], ids=["sparse", "dense"])
def test_adam_moves_every_row_in_every_step(gradient, compiled):
    nothing = tf.zeros([3, 2])
    moved = _run("adam", [gradient, nothing], compiled)
    np.testing.assert_allclose(moved, _adam([DENSE, 0 * DENSE], [[0, 1, 2]] * 2), rtol=1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_lazy_adam_moves_only_the_rows_of_the_batch(compiled):
    other = tf.IndexedSlices(tf.constant([[1.0, 1.0]]), tf.constant([1]), tf.constant([3, 2]))
    moved = _run("lazy_adam", [_sparse(), other], compiled)
    gradient = np.array([[0, 0], [1, 1], [0, 0]], "f")
    np.testing.assert_allclose(moved, _adam([DENSE, gradient], [[0, 2], [1]]), rtol=1e-5)


def test_lazy_adam_equals_adam_on_dense_gradients():
    gradients = [tf.constant(DENSE), tf.constant(DENSE) * 2]
    np.testing.assert_allclose(_run("lazy_adam", gradients), _run("adam", gradients), rtol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("gradient", [_sparse(), tf.constant(DENSE)], ids=["sparse", "dense"])
def test_sgd_steps_against_the_gradient(gradient, compiled):
    np.testing.assert_allclose(_run("sgd", [gradient], compiled), START - 0.1 * DENSE, rtol=1e-6)


def test_weight_decay_is_apart_from_the_gradient_and_from_the_learning_rate():
    decayed = START * (1 - 0.5)
    np.testing.assert_allclose(_run("sgd", [tf.constant(DENSE)], weight_decay=0.5), decayed - 0.1 * DENSE, rtol=1e-6)
    np.testing.assert_allclose(
        _run("adam", [tf.constant(DENSE)], weight_decay=0.5), _adam([DENSE], [[0, 1, 2]], decay=0.5), rtol=1e-5
    )


def test_lazy_adam_decays_only_the_rows_of_the_batch():
    moved = _run("lazy_adam", [_sparse()], weight_decay=0.5)
    np.testing.assert_allclose(moved, _adam([DENSE], [[0, 2]], decay=0.5), rtol=1e-5)
