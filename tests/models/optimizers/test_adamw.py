"""AdamW against its formula in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.models import make_optimizer
from components.models.ops.choice import training_back_end
from components.models.optimizers.schedules import Rate, warm_up

START = np.linspace(-1.0, 2.0, 48, dtype="f").reshape(3, 16)
# Row 2 twice, row 1 never.
ROWS, VALUES = [2, 0, 2], np.linspace(1.0, -0.5, 48, dtype="f").reshape(3, 16)


def sparse() -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.constant(VALUES), tf.constant(ROWS), tf.constant([3, 16]))


def formula(gradients: list[np.ndarray], rates: list[float], decay: float, start: np.ndarray = START) -> np.ndarray:
    w, m, v = start.astype("d"), np.zeros(start.shape), np.zeros(start.shape)
    for t, (g, rate) in enumerate(zip(gradients, rates, strict=True), 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w = w - rate * (decay * w + np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(v) + 1e-6))
    return w


def moved(variable: tf.Variable, gradients: list[Any], rate: Rate, **settings: Any) -> np.ndarray:
    optimizer = make_optimizer("adamw", rate, **settings)

    def step(gradient: Any) -> None:
        with training_back_end():
            optimizer.apply([(gradient, variable)])

    apply = tf.function(step)
    for gradient in gradients:
        apply(gradient)
    return variable.numpy()


@pytest.mark.parametrize("gradient", [sparse(), tf.convert_to_tensor(sparse())], ids=["sparse", "dense"])
def test_every_weight_decays_by_the_rate_of_its_step(gradient: Any) -> None:
    dense = tf.convert_to_tensor(gradient).numpy()
    # A rate of 0 in the first step: nothing decays, but the moments grow.
    found = moved(tf.Variable(START, name="kernel"), [gradient] * 3, warm_up(0.2, 2), weight_decay=0.5)
    np.testing.assert_allclose(found, formula([dense] * 3, [0.0, 0.1, 0.2], 0.5), rtol=1e-5, atol=1e-6)


def test_a_constant_rate_decays_as_a_schedule_does() -> None:
    found = moved(tf.Variable(START, name="kernel"), [sparse()] * 2, 0.1, weight_decay=0.5)
    dense = tf.convert_to_tensor(sparse()).numpy()
    np.testing.assert_allclose(found, formula([dense] * 2, [0.1] * 2, 0.5), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["layer/bias", "layer/layer_norm/gamma", "norm/beta"])
def test_biases_and_normalisations_do_not_decay(name: str) -> None:
    found = moved(tf.Variable(START, name=name), [tf.constant(VALUES)], 0.1, weight_decay=0.5)
    np.testing.assert_allclose(found, formula([VALUES], [0.1], 0.0), rtol=1e-5, atol=1e-6)


def test_other_names_can_be_excluded() -> None:
    settings: dict[str, Any] = dict(weight_decay=0.5, excluded=("kernel",))
    for name, decay in (("a/kernel", 0.0), ("a/bias", 0.5)):
        found = moved(tf.Variable(START, name=name), [tf.constant(VALUES)], 0.1, **settings)
        np.testing.assert_allclose(found, formula([VALUES], [0.1], decay), rtol=1e-5, atol=1e-6)


def test_a_factor_scales_the_rate_and_the_decay_of_a_variable() -> None:
    optimizer = make_optimizer("adamw", 0.1, weight_decay=0.5, factor=lambda v: 0.64 if "layer_0" in v.name else 1.0)
    low, high = (tf.Variable(START, name=f"layer_{number}/kernel") for number in range(2))
    for _ in range(2):
        optimizer.apply([(tf.constant(VALUES), low), (tf.constant(VALUES), high)])
    np.testing.assert_allclose(low.numpy(), formula([VALUES] * 2, [0.064] * 2, 0.5), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(high.numpy(), formula([VALUES] * 2, [0.1] * 2, 0.5), rtol=1e-5, atol=1e-6)
