from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.errors import KfrecError
from components.models.loss import LossTerm, cross_entropy, loss_of, next_item_loss, sum_of
from components.models.model import loss_terms_of


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def test_cross_entropy_has_a_loss_of_each_sample():
    logits, labels = np.array([2.0, -1.0, 0.5], "f"), np.array([1.0, 1.0, 0.0], "f")
    p = _sigmoid(logits)
    term = cross_entropy(tf.constant(labels), tf.constant(logits), 0.5)
    np.testing.assert_allclose(term.total, [-np.log(p[0]), -np.log(p[1]), -np.log(1 - p[2])], rtol=1e-6)
    assert (list(term.count), term.weight) == ([1.0] * 3, 0.5)


def test_next_item_loss_counts_masked_positions_only():
    clicked, unclicked = tf.constant([[1.0, 5.0], [0.0, 0.0]]), tf.constant([[-2.0, 7.0], [0.0, 0.0]])
    term = next_item_loss(clicked, unclicked, tf.constant([[True, False], [False, False]]))
    np.testing.assert_allclose(term.total, [(-np.log(_sigmoid(1)) - np.log(1 - _sigmoid(-2))) / 2, 0.0], rtol=1e-6)
    assert list(term.count) == [1.0, 0.0]


def test_padding_may_count_as_in_the_public_auxiliary_loss():
    logits, mask = (tf.constant([1.0, 5.0]), tf.constant([-2.0, 7.0])), tf.constant([True, False])
    # The public SIM's: the sum of both log losses, 0 at padding, and the mean over all positions.
    published = np.mean([-np.log(_sigmoid(1)) - np.log(1 - _sigmoid(-2)), 0.0])
    term = next_item_loss(*logits, mask, weight=2.0, padding=True)
    np.testing.assert_allclose(loss_of([term]), published, rtol=1e-6)


def test_huge_logits_give_a_finite_loss():
    term = next_item_loss(tf.constant([-1e4]), tf.constant([1e4]), tf.constant([True]))
    np.testing.assert_allclose(term.total, [1e4])


def test_the_loss_weighs_means_and_skips_empty_terms():
    terms = [LossTerm(tf.constant([2.0, 4.0]), tf.constant([1.0, 2.0]), 0.5), LossTerm(tf.zeros(2), tf.zeros(2), 1.0)]
    assert float(loss_of(terms)) == 1.0


def test_samples_that_fill_a_batch_up_are_not_counted():
    assert float(sum_of(tf.constant([2.0, 4.0]), tf.constant([1.0, 0.0]))) == 2.0


def test_a_term_that_is_summed_over_the_samples_already_is_refused() -> None:
    class Summed:
        def loss_terms(self, features: Any, targets: Any, mask: Any, training: bool = True) -> Any:
            return {"logit": tf.zeros([3])}, {"error": LossTerm(tf.constant(6.0), tf.ones([3]), 1.0)}

    model: Any = Summed()
    with pytest.raises(KfrecError, match=r"Summed.loss_terms: the total of term error is .* not one value a sample"):
        loss_terms_of(model, {}, {}, tf.ones([3], tf.bool))
