import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.recurrence import GatedRecurrence
from components.models.layers.weights import Weights


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _expected(layer: GatedRecurrence, inputs: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """The formula, one step and one sample at a time."""
    (wu, wr, wc), (uu, ur, uc) = layer.kernels.numpy(), layer.recurrent_kernels.numpy()
    (bu, br), bc = layer.gate_biases.numpy(), layer.candidate_bias.numpy()
    steps, batch, _ = inputs.shape
    states = np.zeros((steps, batch, bc.size))
    for b in range(batch):
        h = np.zeros(bc.size)
        for t in range(steps):
            x = inputs[t, b]
            u = _sigmoid(x @ wu + h @ uu + bu)
            r = _sigmoid(x @ wr + h @ ur + br)
            c = np.tanh(x @ wc + r * (h @ uc) + bc)
            u = (1 - attention[t, b]) * u
            h = u * h + (1 - u) * c
            states[t, b] = h
    return states


def _layer_and_inputs() -> tuple[GatedRecurrence, np.ndarray]:
    layer = GatedRecurrence(Weights(1), inputs=3, units=5, gate_bias=1.0)
    layer.candidate_bias.assign([0.1, -0.2, 0.3, 0.0, 0.5])
    return layer, np.random.default_rng(0).normal(size=(4, 2, 3)).astype("f")


def test_without_attention_it_is_a_gru():
    layer, inputs = _layer_and_inputs()
    np.testing.assert_allclose(layer.states(tf.constant(inputs)), _expected(layer, inputs, np.zeros((4, 2))), atol=1e-5)


def test_attention_scales_the_update_gate():
    layer, inputs = _layer_and_inputs()
    attention = np.random.default_rng(1).random((4, 2)).astype("f")
    last = layer.last_state(tf.constant(inputs), tf.constant(attention))
    np.testing.assert_allclose(last, _expected(layer, inputs, attention)[-1], atol=1e-5)


@pytest.mark.parametrize("attended", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
def test_its_gradients_are_those_of_the_formula(attended: bool, steps: int):
    layer, inputs = _layer_and_inputs()
    random = np.random.default_rng(2)
    given = tf.constant(inputs[:steps])
    attention = tf.constant(random.random((steps, 2)).astype("f")) if attended else None
    upstream = tf.constant(random.normal(size=(steps, 2, 5)).astype("f"))
    watched = [given, *layer.trainable_variables] + ([attention] if attended else [])

    def gradients(states):
        with tf.GradientTape() as tape:
            tape.watch([x for x in watched if not isinstance(x, tf.Variable)])
            loss = tf.reduce_sum(states() * upstream)
        return tape.gradient(loss, watched, unconnected_gradients="zero")

    def written_out():
        (wu, wr, wc), (uu, ur, uc) = tf.unstack(layer.kernels), tf.unstack(layer.recurrent_kernels)
        (bu, br), bc = tf.unstack(layer.gate_biases), layer.candidate_bias
        h, states = tf.zeros([2, 5]), []
        for t in range(steps):
            x, a = given[t], 0.0 if attention is None else attention[t][:, tf.newaxis]
            u = (1.0 - a) * tf.sigmoid(x @ wu + h @ uu + bu)
            r = tf.sigmoid(x @ wr + h @ ur + br)
            h = u * h + (1.0 - u) * tf.tanh(x @ wc + r * (h @ uc) + bc)
            states.append(h)
        return tf.stack(states)

    if attended:  # of the last state alone
        upstream *= tf.concat([tf.zeros([steps - 1, 2, 5]), tf.ones([1, 2, 5])], 0)
    own = gradients(lambda: layer.last_state(given, attention)[tf.newaxis] if attended else layer.states(given))
    for mine, right in zip(own, gradients(written_out), strict=True):
        np.testing.assert_allclose(mine, right, atol=1e-5)
