"""Several optimizers with schedules of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.models.optimizers import make_optimizer
from components.models.optimizers.groups import OptimizerGroup, Optimizers
from components.models.optimizers.schedules import Rate, at, piecewise, polynomial_decay, warm_up


def rates(rate: Rate, steps: list[int]) -> list[float]:
    return [float(at(rate, tf.constant(float(step)))) for step in steps]


def test_a_warm_up_rises_to_its_peak_and_stays() -> None:
    np.testing.assert_allclose(rates(warm_up(8.0, 4), [0, 1, 3, 4, 100]), [0, 2, 6, 8, 8])


def test_polynomial_decay_ends_at_zero() -> None:
    # DLRM: ((72000 - s) / 24000)^2 after step 48000
    schedule = polynomial_decay(24.0, begin=48_000, end=72_000)
    np.testing.assert_allclose(rates(schedule, [0, 48_000, 60_000, 72_000, 80_000]), [24, 24, 6, 0, 0])


def test_a_warm_up_hands_over_to_another_schedule() -> None:
    schedule = warm_up(24.0, 8000, polynomial_decay(24.0, 48_000, 72_000))
    np.testing.assert_allclose(rates(schedule, [4000, 8000, 60_000]), [12, 24, 6])


def test_a_warm_up_and_a_square_root_end_at_zero() -> None:
    # ELECTRA, second phase: 4e-3 s / 200, then 4e-3 sqrt(1 - (s - 200) / (933 - 200))
    schedule = warm_up(4e-3, 200, polynomial_decay(4e-3, 200, 933, power=0.5))
    expected = [0, 2e-3, 4e-3, 4e-3 * (1 - 400 / 733) ** 0.5, 0, 0]
    np.testing.assert_allclose(rates(schedule, [0, 100, 200, 600, 933, 1000]), expected, rtol=1e-5, atol=1e-9)


def test_pieces_hold_from_their_step_on() -> None:
    np.testing.assert_allclose(rates(piecewise([(0, 1.0), (3, 0.25), (5, 0.125)]), [0, 2, 3, 4, 5, 9]),
                               [1, 1, 0.25, 0.25, 0.125, 0.125])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adam", "lazy_adam", "sgd"])
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_constant_schedule_moves_as_a_number_does(name: str, decay: float) -> None:
    def moved(rate: Rate) -> np.ndarray:
        variable = tf.Variable(np.arange(32, dtype="f").reshape(2, 16))
        optimizer = make_optimizer(name, rate, weight_decay=decay)
        apply = tf.function(optimizer.apply)
        for _ in range(3):
            slices = tf.IndexedSlices(tf.ones([1, 16]), tf.constant([1]), tf.constant([2, 16]))
            apply([(slices, variable)])
        return variable.numpy()

    np.testing.assert_allclose(moved(piecewise([(0, 0.5)])), moved(0.5), rtol=1e-6)


def test_each_group_moves_its_own_variables_by_its_own_schedule() -> None:
    first, second = tf.Variable([1.0]), tf.Variable([1.0])
    groups = [
        OptimizerGroup(make_optimizer("sgd", piecewise([(0, 1.0), (1, 0.0)])), [first]),
        OptimizerGroup(make_optimizer("sgd", 0.5), [second]),
    ]
    optimizers = Optimizers(groups, [second, first])
    for _ in range(2):
        optimizers.apply([(tf.constant([0.25]), second), (tf.constant([0.25]), first)])
    assert (float(first[0]), float(second[0])) == (0.75, 0.75)
    assert optimizers.description == "sgd and sgd" and optimizers.keeps_sparse == (False, False)


def test_a_variable_without_a_group_and_one_in_two_are_refused() -> None:
    first, second = tf.Variable([1.0]), tf.Variable([1.0], name="lonely")
    optimizer = make_optimizer("sgd", 0.5)
    with pytest.raises(KfrecError, match="lonely:0: in no optimizer group"):
        Optimizers([OptimizerGroup(optimizer, [first])], [first, second])
    with pytest.raises(KfrecError, match="in two optimizer groups"):
        Optimizers([OptimizerGroup(optimizer, [first]), OptimizerGroup(make_optimizer("adam", 1), [first])], [first])


def test_an_optimizer_without_its_variables_is_refused() -> None:
    groups: list[Any] = [make_optimizer("sgd", 0.5)]
    with pytest.raises(KfrecError, match="the optimizers of the model have a Sgd; return OptimizerGroups"):
        Optimizers(groups, [tf.Variable([1.0])])
