"""The moving average of the weights."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from components.train.loop.averages import Averages

WEIGHTS = [np.array([[1.0, -2.0]]), np.array([[4.0, 0.5]]), np.array([[-3.0, 8.0]])]


def averaged(decay: float) -> tuple[Averages, list[tf.Variable]]:
    """After three steps."""
    variables = [tf.Variable(tf.zeros([1, 2]))]
    averages = Averages(variables, decay)
    update = tf.function(lambda: averages.update(variables), autograph=False)
    for weights in WEIGHTS:
        variables[0].assign(weights)
        update()
    return averages, variables


@pytest.mark.parametrize("decay", [0.1, 0.9, 0.9999])
def test_it_is_the_normalised_sum_of_what_decays(decay: float):
    averages, _ = averaged(decay)
    shares = np.array([decay**2, decay, 1.0]) * (1 - decay) / (1 - decay**3)
    assert shares.sum() == pytest.approx(1.0)
    expected = sum(share * weights for share, weights in zip(shares, WEIGHTS, strict=True))
    np.testing.assert_allclose(averages.values[0], expected, rtol=2e-3)


def test_the_weights_come_back_after_the_averages_were_applied_whatever_happens_within():
    averages, variables = averaged(0.5)
    expected = averages.values[0].numpy()
    with pytest.raises(ZeroDivisionError), averages.applied(variables):
        np.testing.assert_array_equal(variables[0], expected)
        raise ZeroDivisionError
    np.testing.assert_array_equal(variables[0], WEIGHTS[-1])
    np.testing.assert_array_equal(averages.values[0], expected)


def test_a_decay_of_zero_keeps_the_weights_and_no_memory():
    averages, variables = averaged(0.0)
    with averages.applied(variables):
        np.testing.assert_array_equal(variables[0], WEIGHTS[-1])
    averages.assign_to(variables)
    np.testing.assert_array_equal(variables[0], WEIGHTS[-1])
    assert not averages.values
