"""LAMB against its formula in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.models import make_optimizer
from components.models.layers.weights import Weights
from components.models.ops.choice import as_with_gpu, training_back_end
from components.models.ops.scaling import Scaling
from components.models.optimizers.lamb import Lamb
from components.models.tables.creation import PlacedTables, tables_made_by
from components.models.tables.placement import Placement, sharding_of
from tests.models.tables.simulated import on_simulated

START = np.array([[3.0, -4.0], [1.0, 2.0], [0.5, -0.25]], "f")
GRADIENTS = [np.array([[0.5, -1.0], [0.0, 0.0], [1.5, 2.0]], "f") * size for size in (1.0, -0.5, 0.25)]
# The published ELECTRA's.
SETTINGS: dict[str, Any] = dict(weight_decay=0.01, beta_1=0.878, beta_2=0.974)


def formula(
    gradients: list[np.ndarray], start: np.ndarray, decay: float, scaled: bool, rate: float = 0.1
) -> np.ndarray:
    w, m, v = start.astype("d"), np.zeros(start.shape), np.zeros(start.shape)
    for t, g in enumerate(gradients, 1):
        m, v = 0.878 * m + 0.122 * g, 0.974 * v + 0.026 * g**2
        r = m / (1 - 0.878**t) / (np.sqrt(v / (1 - 0.974**t)) + 1e-6) + decay * w
        norms = np.linalg.norm(w), np.linalg.norm(r)
        w = w - rate * (norms[0] / norms[1] if scaled and all(norms) else 1.0) * r
    return w


def moved(variable: tf.Variable, gradients: list[Any], compiled: bool = False, **settings: Any) -> np.ndarray:
    optimizer = make_optimizer("lamb", 0.1, **{**SETTINGS, **settings})
    apply: Callable = tf.function(optimizer.apply) if compiled else optimizer.apply
    for gradient in gradients:
        apply([(gradient, variable)])
    return variable.numpy()


@pytest.mark.slow
@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_has_the_length_of_the_weights_times_the_rate(compiled: bool) -> None:
    found = moved(tf.Variable(START, name="kernel"), [tf.constant(g) for g in GRADIENTS], compiled)
    np.testing.assert_allclose(found, formula(GRADIENTS, START, 0.01, True), rtol=1e-5)
    one = moved(tf.Variable(START, name="kernel"), [tf.constant(GRADIENTS[0])], compiled)
    np.testing.assert_allclose(np.linalg.norm(one - START), 0.1 * np.linalg.norm(START), rtol=1e-5)


def test_rows_without_a_gradient_decay_and_move_by_their_moments() -> None:
    # Row 2 twice, row 1 never.
    slices = tf.IndexedSlices(
        tf.constant([[1.0, 1.0], [0.5, -1.0], [0.5, 1.0]]), tf.constant([2, 0, 2]), tf.constant([3, 2])
    )
    found = moved(tf.Variable(START, name="table"), [slices] * 2, compiled=True)
    np.testing.assert_allclose(found, formula([GRADIENTS[0]] * 2, START, 0.01, True), rtol=1e-5)


@pytest.mark.parametrize("name", ["layer/bias", "layer/layer_norm/gamma", "norm/beta"])
def test_biases_and_normalisations_have_neither_decay_nor_a_ratio(name: str) -> None:
    found = moved(tf.Variable(START, name=name), [tf.constant(GRADIENTS[0])])
    np.testing.assert_allclose(found, formula(GRADIENTS[:1], START, 0.0, False), rtol=1e-5)


def test_weights_of_zero_and_gradients_of_zero_have_the_ratio_one() -> None:
    zeros = np.zeros_like(START)
    found = moved(tf.Variable(zeros, name="kernel"), [tf.constant(GRADIENTS[0])])
    np.testing.assert_allclose(found, formula(GRADIENTS[:1], zeros, 0.01, True), rtol=1e-5)
    assert np.abs(found).max() > 0.05
    still = moved(tf.Variable(START, name="kernel"), [tf.constant(zeros)], weight_decay=0.0)
    np.testing.assert_array_equal(still, START)


def test_a_factor_scales_a_variables_step() -> None:
    found = moved(tf.Variable(START, name="kernel"), [tf.constant(GRADIENTS[0])], factor=lambda variable: 0.64)
    np.testing.assert_allclose(found, formula(GRADIENTS[:1], START, 0.01, True, rate=0.064), rtol=1e-5)


def test_a_skipped_step_changes_nothing() -> None:
    optimizer, variable = Lamb(0.1), tf.Variable(START, name="kernel")
    optimizer.apply([(tf.constant(GRADIENTS[0]), variable)], Scaling(tf.constant(1.0), tf.constant(True)))
    before = [each.numpy() for each in (variable, *optimizer.variables)]
    broken = tf.constant(START) * np.inf
    optimizer.apply([(broken, variable)], Scaling(tf.constant(0.0), tf.constant(False)))
    for each, value in zip((variable, *optimizer.variables), before, strict=True):
        np.testing.assert_array_equal(each.numpy(), value)


def test_the_parts_that_a_gpu_compiles_give_the_same() -> None:
    variable, optimizer = tf.Variable(START, name="kernel"), make_optimizer("lamb", 0.1, **SETTINGS)

    @tf.function
    def apply(gradient: tf.Tensor) -> None:
        with as_with_gpu(), training_back_end():
            optimizer.apply([(gradient, variable)])

    for gradient in GRADIENTS:
        apply(tf.constant(gradient))
    np.testing.assert_allclose(variable.numpy(), formula(GRADIENTS, START, 0.01, True), rtol=1e-5)


@pytest.mark.parametrize("kind", ["rows", "columns", "rank"])
def test_a_sharded_table_moves_by_the_norms_of_the_whole_table(kind: str) -> None:
    gradient = np.random.default_rng(1).normal(size=(5, 4)).astype("f")
    start = Weights(3).tables().uniform("table", (5, 4), 1.0).numpy()

    def run(ranks: Any) -> tuple[Any, np.ndarray]:
        with tables_made_by(PlacedTables({"table": Placement(kind, rank=1)}, ranks)):
            mine = Weights(3).tables().uniform("table", (5, 4), 1.0)
        sharding = sharding_of(mine)
        assert sharding is not None
        part = sharding.mine
        own = gradient[part.first :: part.step, part.begin : part.end][: part.rows]
        return part, moved(mine, [tf.constant(own)] * 2)

    expected = formula([gradient] * 2, start, 0.01, True)
    for part, found in on_simulated(2, run):
        np.testing.assert_allclose(found, expected[part.ids(0, part.rows), part.begin : part.end], rtol=1e-5)
