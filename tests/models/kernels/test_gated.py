"""The kernels against TensorFlow's operations, which tests/models/layers compares with the formula."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.kernels import gated
from components.models.kernels.host import host_kernels
from components.models.layers.recurrence import GatedRecurrence
from components.models.layers.weights import Weights


def _results(
    layer: GatedRecurrence, inputs: tf.Tensor, attention: tf.Tensor | None, uses_of_all: int | None, allowed: bool
) -> list[np.ndarray]:
    """All states so many times, or the last one, and the gradients of everything they come from."""
    given = [inputs] if attention is None else [inputs, attention]
    there = np.random.default_rng(1).random(inputs.shape[:2]) < 0.7
    present = None if uses_of_all == 1 else tf.constant(there, tf.float32)

    def compute() -> list[tf.Tensor]:
        with host_kernels(allowed), tf.GradientTape() as tape:
            tape.watch(given)
            assert gated.fits(inputs, layer.kernels.shape[-1]) == allowed
            uses = (
                [layer.last_state(*given)]
                if uses_of_all is None
                else layer.states(*given, present=present, uses=uses_of_all)
            )
            weights = tf.cos(tf.cast(tf.reshape(tf.range(tf.size(uses[0])), tf.shape(uses[0])), tf.float32))
            loss = tf.add_n([tf.reduce_sum((states - number) ** 2 * weights) for number, states in enumerate(uses)])
        sources = [*given, *layer.trainable_variables]
        return [*uses, *tape.gradient(loss, sources, unconnected_gradients="zero")]

    # TensorFlow's own operations are traced and optimised for longer than they compute.
    return [result.numpy() for result in (tf.function(compute, autograph=False) if allowed else compute)()]


@pytest.mark.parametrize("uses_of_all", [1, 3, None])
@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize(
    ("steps", "samples", "inputs", "units"),
    [(3, 130, 32, 96), (2, 64, 96, 96), (4, 1, 16, 48), (1, 70, 64, 80), (2, 0, 16, 16), (2, 300, 16, 16)],
)
def test_states_and_gradients_are_those_of_tensorflow(
    steps: int, samples: int, inputs: int, units: int, attended: bool, uses_of_all: int | None
):
    random = np.random.default_rng(steps)
    layer = GatedRecurrence(Weights(1), inputs, units, gate_bias=0.5)
    layer.candidate_bias.assign(random.normal(size=units).astype("f"))
    given = tf.constant(random.normal(size=(steps, samples, inputs)).astype("f"))
    attention = tf.constant(random.random((steps, samples)).astype("f")) if attended else None
    expected, own = (_results(layer, given, attention, uses_of_all, allowed) for allowed in (False, True))
    for right, mine in zip(expected, own, strict=True):
        assert mine.shape == right.shape
        np.testing.assert_allclose(mine, right, atol=1e-5 * max(np.abs(right).max(initial=0), 1))


def test_nan_is_not_lost():
    layer = GatedRecurrence(Weights(1), 16, 16)
    inputs = np.zeros((2, 3, 16), "f")
    inputs[0, 1, 4] = np.nan
    with host_kernels():
        states = tf.function(lambda x: layer.states(x)[0])(tf.constant(inputs)).numpy()
    assert np.isnan(states[:, 1]).all()
    assert np.isfinite(states[:, ::2]).all()


@pytest.mark.parametrize(("inputs", "dtype"), [(24, tf.float32), (16, tf.float16)])
def test_what_does_not_fit_is_left_to_tensorflow(inputs: int, dtype: tf.DType):
    with host_kernels():
        assert not gated.fits(tf.zeros([2, 3, inputs], dtype), 16)
    assert not gated.fits(tf.zeros([2, 3, 16]), 16)
