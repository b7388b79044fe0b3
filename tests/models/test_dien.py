import numpy as np
import pytest
import tensorflow as tf

from components.models.dien.model import Dien
from components.models.loss import sum_of
from tests.models.calling import logits, loss_terms
from tests.train.building import build_model


@pytest.fixture
def model(spec, parameters) -> Dien:
    model = build_model(parameters("dien"), spec)
    assert isinstance(model, Dien)
    return model


def test_only_the_newest_items_matter(model, make_batch):
    features, _ = make_batch(5, history=[8] * 5)
    before = logits(model, features)
    features["item_pos"][:, :5] = 1
    np.testing.assert_allclose(logits(model, features), before, atol=1e-6)
    features["item_pos"][:, 5:] = 1
    assert not np.allclose(logits(model, features), before)


def test_the_classifier_reads_target_interest_and_user(model, make_batch):
    features, _ = make_batch(5)
    batch = model.inputs(features)
    interest, _ = model.evolution(batch.short, batch.short_mask, batch.target)
    expected = model.classifier(tf.concat([batch.target, interest, batch.user], 1))
    np.testing.assert_allclose(logits(model, features), expected, atol=1e-6)


def test_the_auxiliary_loss_counts_items_that_followed_another_step(model, make_batch):
    # Short histories of 0, 1, 2 and 3 items hold 0, 1, 2 and 2 items after the first step.
    _, terms = loss_terms(model, *make_batch(4, history=[0, 1, 2, 3]))
    assert float(sum_of(terms["auxiliary"].count)) == 5.0
