"""The kernels against TensorFlow's operations, which tests/models/layers compares with the formula."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.recurrence import GatedRecurrence
from components.models.layers.weights import Weights
from components.models.ops.choice import host_back_end
from components.models.ops.host import gated
from tests.models.ops.host.agreement import assert_agreement


@pytest.mark.slow
@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize(
    ("steps", "samples", "inputs", "units"),
    [(3, 130, 32, 96), (2, 64, 96, 96), (4, 1, 16, 48), (1, 70, 64, 80), (2, 0, 16, 16), (2, 300, 16, 16)],
)
def test_states_and_gradients_are_those_of_tensorflow(
    steps: int, samples: int, inputs: int, units: int, attended: bool
):
    random = np.random.default_rng(steps)
    layer = GatedRecurrence(Weights(1), inputs, units, gate_bias=0.5)
    layer.candidate_bias.assign(random.normal(size=units).astype("f"))
    given = tf.constant(random.normal(size=(steps, samples, inputs)).astype("f"))
    attention = tf.constant(random.random((steps, samples)).astype("f")) if attended else None
    if attention is None:
        assert_agreement(lambda: layer.states(given), [given, *layer.trainable_variables])
    else:
        sources = [given, attention, *layer.trainable_variables]
        assert_agreement(lambda: layer.last_state(given, attention), sources)


def test_nan_is_not_lost():
    layer = GatedRecurrence(Weights(1), 16, 16)
    inputs = np.zeros((2, 3, 16), "f")
    inputs[0, 1, 4] = np.nan
    with host_back_end():
        states = tf.function(layer.states)(tf.constant(inputs)).numpy()
    assert np.isnan(states[:, 1]).all()
    assert np.isfinite(states[:, ::2]).all()


@pytest.mark.parametrize(("inputs", "dtype"), [(24, tf.float32), (16, tf.float16)])
def test_what_does_not_fit_is_left_to_tensorflow(inputs: int, dtype: tf.DType):
    x, weights = tf.zeros([2, 3, inputs], dtype), [tf.zeros([3, inputs, 16]), tf.zeros([3, 16, 16]), tf.zeros([3, 16])]
    assert gated.gru(x, *weights) is NotImplemented
    assert gated.augru(x, tf.zeros([2, 3], dtype), *weights) is NotImplemented
