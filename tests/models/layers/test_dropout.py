import numpy as np
import pytest
import tensorflow as tf

from components.models.draws import draws_at
from components.models.layers.dropout import Dropout
from components.models.layers.weights import Weights

ONES = np.ones((200, 50), "f")


def _mask(layer: Dropout, seed: int = 1, step: int = 0, first: int = 0, ones: np.ndarray = ONES, **how) -> np.ndarray:
    def apply(inputs: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
        with draws_at(seed, position):
            return layer(inputs)

    return tf.function(apply, autograph=False, **how)(tf.constant(ones), tf.constant([step, first])).numpy()


def test_a_share_of_the_units_is_zero_and_the_others_make_up_for_it():
    dropped = _mask(Dropout(Weights(1), 0.25))
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / 0.75], rtol=1e-6)
    assert abs((dropped == 0).mean() - 0.25) < 0.02


@pytest.mark.parametrize("units", [50, 64])
def test_a_samples_mask_does_not_depend_on_its_batch(units):
    layer, ones = Dropout(Weights(1), 0.5), np.ones((20, units), "f")
    whole = _mask(layer, ones=ones)
    for begin, end in ((0, 7), (7, 20)):
        np.testing.assert_array_equal(_mask(layer, first=begin, ones=ones[begin:end]), whole[begin:end])
    np.testing.assert_array_equal(_mask(layer, ones=ones, jit_compile=True), whole)


def test_every_step_layer_sample_and_seed_has_its_own_mask():
    layer = Dropout(Weights(1), 0.5)
    masks = [
        _mask(layer),
        _mask(layer, step=1),
        _mask(layer, first=200),
        _mask(Dropout(Weights(1).scope("other"), 0.5)),
        _mask(layer, seed=2),
    ]
    for i in range(5):
        for j in range(i):
            assert abs((masks[i] == masks[j]).mean() - 0.5) < 0.02


def test_the_gradient_is_the_mask():
    layer, inputs = Dropout(Weights(1), 0.5), tf.constant(ONES)
    with draws_at(1), tf.GradientTape() as tape:
        tape.watch(inputs)
        dropped = layer(inputs)
    np.testing.assert_array_equal(tape.gradient(dropped, inputs), dropped)


def test_half_precision_stays_half_precision():
    with draws_at(1):
        assert Dropout(Weights(1), 0.5)(tf.constant(ONES, tf.float16)).dtype == tf.float16
