import numpy as np
import tensorflow as tf

from components.models.layers.activation_unit import ActivationUnit
from components.models.layers.weights import Weights


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _expected(unit: ActivationUnit, items: np.ndarray, target: np.ndarray) -> np.ndarray:
    """[item, target, item - target, item * target] -> 80 -> 40 -> 1, one position at a time."""
    scores = np.zeros(items.shape[:2])
    for b, t in np.ndindex(*scores.shape):
        item, wanted = items[b, t], target[b]
        x = np.concatenate([item, wanted, item - wanted, item * wanted])
        x = _sigmoid(x @ unit.kernel.numpy() + unit.bias.numpy())
        x = _sigmoid(x @ unit.second.kernel.numpy() + unit.second.bias.numpy())
        scores[b, t] = (x @ unit.output.kernel.numpy() + unit.output.bias.numpy())[0]
    return scores


def test_the_split_first_layer_equals_the_concatenated_one():
    unit = ActivationUnit(Weights(1), 4)
    unit.bias.assign(tf.random.stateless_normal([80], [0, 1]))
    random = np.random.default_rng(0)
    items, target = random.normal(size=(3, 5, 4)).astype("f"), random.normal(size=(3, 4)).astype("f")
    scores = unit(tf.constant(items.swapaxes(0, 1)), tf.constant(target))
    np.testing.assert_allclose(tf.transpose(scores), _expected(unit, items, target), atol=1e-5)
