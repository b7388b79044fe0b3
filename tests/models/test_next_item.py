import numpy as np
import tensorflow as tf

from components.models.evolution import NextItemNetwork
from components.models.layers.weights import Weights
from components.models.loss import sum_of


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _logit(network: NextItemNetwork, state: np.ndarray, item: np.ndarray) -> float:
    x = np.concatenate([state, item]) @ network.kernel.numpy() + network.bias.numpy()
    for layer in network.rest:
        x = _sigmoid(x) @ layer.kernel.numpy() + layer.bias.numpy()
    return x[0]


def _states_and_candidates() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return random.normal(size=(3, 2, 6)).astype("f"), random.normal(size=(2, 2, 2, 4)).astype("f")


def test_the_auxiliary_loss_averages_both_log_losses_over_the_items_that_came():
    network = NextItemNetwork(Weights(1), state=6, item=4, hidden=(5, 3))
    states, candidates = _states_and_candidates()
    mask = np.array([[True, True, True], [False, False, True]])
    total, count = 0.0, 0
    for step, sample in np.ndindex(2, 2):
        if mask[sample, step + 1]:
            clicked = _sigmoid(_logit(network, states[step, sample], candidates[0, step, sample]))
            unclicked = _sigmoid(_logit(network, states[step, sample], candidates[1, step, sample]))
            total += (-np.log(clicked) - np.log(1 - unclicked)) / 2
            count += 1
    term = network.loss(tf.stack(states), tf.constant(candidates), tf.constant(mask))
    np.testing.assert_allclose(sum_of(term.total), total, rtol=1e-5)
    assert (float(sum_of(term.count)), term.weight) == (count, 1.0)


def test_a_history_of_one_item_has_nothing_that_came_next():
    network = NextItemNetwork(Weights(1), state=6, item=4, hidden=(5, 3))
    term = network.loss(tf.zeros([1, 2, 6]), tf.zeros([2, 0, 2, 4]), tf.ones([2, 1], tf.bool))
    assert (float(sum_of(term.total)), float(sum_of(term.count))) == (0.0, 0.0)
