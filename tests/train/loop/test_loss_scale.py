"""The loss scale: adjusted, or constant."""

import numpy as np
import tensorflow as tf

from components.train.loop.loss_scale import INITIAL, LossScale


def updates(scale: LossScale, *gradients: float) -> list[float]:
    """What the update is called with, one call a step, NaN where a step is skipped."""
    seen = tf.Variable(np.nan)
    found = []
    for gradient in gradients:
        seen.assign(np.nan)
        scale.apply([tf.constant(gradient)], lambda scaled: seen.assign(scaled[0]))
        found.append(float(seen))
    return found


def test_without_mixed_precision_gradients_stay_as_they_are() -> None:
    scale = LossScale(False, 65_536.0)
    assert float(scale.value) == 1.0
    assert updates(LossScale(False), 3.0) == [3.0]


def test_an_adjusted_scale_halves_at_an_overflow_and_skips_the_step() -> None:
    scale = LossScale(True)
    first, second = updates(scale, INITIAL * 3.0, np.inf)
    assert first == 3.0 and np.isnan(second)
    assert float(scale.value) == INITIAL / 2


def test_a_constant_scale_stays_at_an_overflow_and_applies_the_step() -> None:
    scale = LossScale(True, 65_536.0)
    assert float(scale.value) == 65_536.0
    assert updates(scale, 65_536.0 * 3.0, np.inf) == [3.0, np.inf]
    assert float(scale.value) == 65_536.0
