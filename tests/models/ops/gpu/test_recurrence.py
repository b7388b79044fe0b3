"""The GPU's recurrences against their definition; cuDNN's formula is written out here from its documentation."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.models.ops import recurrence
from components.models.ops.choice import as_with_gpu, training_back_end

SAMPLES, INPUTS, UNITS = 5, 4, 3


def emulated(input, input_h, input_c, params, rnn_mode, is_training):
    """cuDNN's GRU: r, i and h' read x by W and h by R, each with a bias of its own; h = (1 - i) * h' + i * h."""
    assert rnn_mode == "gru" and is_training
    steps, _, width = input.shape
    units = input_h.shape[-1]
    sizes = [units * width] * 3 + [units * units] * 3 + [units] * 6
    wr, wi, wh, rr, ri, rh, *biases = tf.split(params, sizes)
    wr, wi, wh = (tf.reshape(w, [units, width]) for w in (wr, wi, wh))
    rr, ri, rh = (tf.reshape(r, [units, units]) for r in (rr, ri, rh))
    br, bi, bh, cr, ci, ch = biases
    state, states = input_h[0], []
    for x in tf.unstack(input, num=steps):
        r = tf.sigmoid(x @ tf.transpose(wr) + state @ tf.transpose(rr) + br + cr)
        i = tf.sigmoid(x @ tf.transpose(wi) + state @ tf.transpose(ri) + bi + ci)
        new = tf.tanh(x @ tf.transpose(wh) + r * (state @ tf.transpose(rh) + ch) + bh)
        state = (1 - i) * new + i * state
        states.append(state)
    return tf.stack(states), state[tf.newaxis], tf.zeros([]), tf.zeros([1])


@pytest.fixture(autouse=True)
def cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.raw_ops, "CudnnRNN", emulated)


def arguments(steps: int, dtype: tf.DType = tf.float32) -> list[tf.Tensor]:
    """Inputs, kernels, recurrent kernels, biases and attention."""
    random = np.random.default_rng(steps)
    shapes = [(steps, SAMPLES, INPUTS), (3, INPUTS, UNITS), (3, UNITS, UNITS), (3, UNITS)]
    given = [random.normal(size=shape) for shape in shapes]
    return [tf.constant(values, dtype) for values in (*given, random.random((steps, SAMPLES)))]


def gru(inputs, kernels, recurrent, biases, attention):
    return recurrence.gru(inputs, kernels, recurrent, biases) + 0 * attention[..., tf.newaxis]


def augru(inputs, kernels, recurrent, biases, attention):
    return recurrence.augru(inputs, attention, kernels, recurrent, biases)


def states_and_gradients(unit: Callable, given: list[tf.Tensor]) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        tape.watch(given)
        states = unit(*given)
        random = np.random.default_rng(1).normal(size=states.shape)
        total = tf.reduce_sum(states * tf.constant(random, states.dtype))
    return [states, *tape.gradient(total, given)]


@pytest.mark.parametrize("compiled", [False, True], ids=["launched one by one", "for XLA"])
@pytest.mark.parametrize("steps", [1, 2, 6])
@pytest.mark.parametrize("unit", [gru, augru])
def test_states_and_gradients_are_those_of_the_definition(unit: Callable, steps: int, compiled: bool):
    given = arguments(steps)
    expected = states_and_gradients(unit, given)
    with as_with_gpu(), training_back_end(compiled):
        found = states_and_gradients(unit, given)
    for own, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, right, atol=1e-5)


def test_half_precision_stays_half_precision():
    given = arguments(3, tf.float16)
    with as_with_gpu(), training_back_end():
        found = states_and_gradients(augru, given)
    assert {tensor.dtype for tensor in found} == {tf.float16}
    for own, right in zip(found, states_and_gradients(augru, arguments(3)), strict=True):
        np.testing.assert_allclose(own, right, atol=0.05)


def test_a_gru_is_one_operation_forward():
    with as_with_gpu(), training_back_end():
        calls = []
        tf.raw_ops.CudnnRNN = lambda **given: (calls.append(given), emulated(**given))[1]
        recurrence.gru(*arguments(4)[:4])
    assert [given["rnn_mode"] for given in calls] == ["gru"]
