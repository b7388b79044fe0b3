import numpy as np
import tensorflow as tf

from components.models.draws import draws_at
from components.models.layers.classifier import Classifier
from components.models.layers.weights import Weights

INPUTS = np.random.default_rng(0).normal(size=(50, 4)).astype("f")


def test_a_classifier_is_dense_layers_with_parametric_rectifiers():
    classifier = Classifier(Weights(1), 4, (6, 3))
    x = INPUTS
    for dense, prelu in classifier.hidden:
        x = x @ dense.kernel.numpy() + dense.bias.numpy()
        x = np.where(x > 0, x, prelu.alpha.numpy() * x)
    expected = (x @ classifier.output.kernel.numpy() + classifier.output.bias.numpy())[:, 0]
    np.testing.assert_allclose(classifier(tf.constant(INPUTS)), expected, atol=1e-6)


def test_rectifiers_start_with_a_slope_of_a_tenth():
    (_, prelu), *_ = Classifier(Weights(1), 4, (6,)).hidden
    np.testing.assert_allclose(prelu.alpha, np.full(6, 0.1))


def test_dropout_acts_in_training_only():
    classifier = Classifier(Weights(1), 4, (64,), dropout_rate=0.5)
    once, again = classifier(tf.constant(INPUTS)), classifier(tf.constant(INPUTS))
    np.testing.assert_allclose(once, again, atol=1e-6)
    with draws_at(1):
        assert not np.allclose(once, classifier(tf.constant(INPUTS), training=True))


def test_a_rate_below_zero_is_no_dropout():
    classifier = Classifier(Weights(1), 4, (64,), dropout_rate=-1.0)
    given = tf.constant(INPUTS)
    np.testing.assert_allclose(classifier(given), classifier(given, training=True), atol=1e-6)


def test_half_precision_inputs_give_single_precision_logits():
    assert Classifier(Weights(1), 4, (6,))(tf.constant(INPUTS, tf.float16)).dtype == tf.float32
