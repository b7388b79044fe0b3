"""Vectors of items: their ids' embeddings, those of their categories, and what their columns add."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from components.feature_spec import Feature
from components.models.draws import draws_at
from components.models.layers.item_features import ItemFeatures
from components.models.layers.weights import Weights

ROWS, WIDTH = 400, 4
OF_ITEMS = np.arange(ROWS) % 6
IDS = tf.random.stateless_normal([ROWS, WIDTH], [1, 2])


@pytest.fixture(scope="module")
def layer() -> ItemFeatures:
    return ItemFeatures(Weights(1), Feature("cat", "int64", 5), OF_ITEMS, WIDTH, id_dropout=0.25)


def is_dropped(layer: ItemFeatures, items: tf.Tensor, step: int, first: int = 0) -> np.ndarray:
    """Whether the vectors of items are those of their categories alone."""
    with draws_at(7, np.array([step, first], np.int32)):
        vectors = layer(tf.gather(IDS, items), items, training=True)
    found = vectors - layer.of_category(tf.gather(OF_ITEMS, items))
    dropped = np.asarray(tf.reduce_all(tf.abs(found) < 1e-6, -1))
    np.testing.assert_allclose(tf.boolean_mask(found, ~dropped), tf.gather(IDS, items)[~dropped], atol=1e-6)
    return dropped


def test_a_vector_is_the_sum_of_the_embeddings_of_the_id_and_of_the_category(layer: ItemFeatures) -> None:
    items = tf.constant([[3, 0], [9, 11]])
    found = layer(tf.gather(IDS, items), items)
    np.testing.assert_allclose(found, tf.gather(IDS, items) + tf.gather(layer.embeddings, [[3, 0], [3, 5]]), atol=1e-6)


def test_a_step_drops_a_share_of_the_ids(layer: ItemFeatures) -> None:
    every = tf.range(ROWS)
    one, other = is_dropped(layer, every, 1), is_dropped(layer, every, 2)
    assert 0.15 < one.mean() < 0.35
    assert (one != other).any()


def test_an_item_is_dropped_wherever_it_occurs_in_the_samples_of_a_step(layer: ItemFeatures) -> None:
    every, some = tf.range(ROWS), tf.constant([[7, 30], [200, 7]])
    one = is_dropped(layer, every, 1)
    # Other samples of the step, such as those of another rank.
    assert (is_dropped(layer, every, 1, first=128) == one).all()
    assert (is_dropped(layer, some, 1, first=3) == one[some]).all()


def test_an_unknown_category_is_that_of_the_padding(layer: ItemFeatures) -> None:
    np.testing.assert_array_equal(layer.of_category(tf.constant([-1, 6])), tf.gather(layer.embeddings, [0, 0]))


def test_columns_add_a_linear_function_which_stays_where_the_id_is_dropped() -> None:
    given = np.random.default_rng(1).normal(size=(ROWS, 3)).astype(np.float32)
    layer = ItemFeatures(Weights(1), Feature("cat", "int64", 5), OF_ITEMS, WIDTH, 0.5, given)
    items = tf.constant([[3, 8], [9, 11]])
    rest = layer.of_category(tf.gather(OF_ITEMS, items)) + given[items.numpy()] @ layer.kernel.numpy()
    np.testing.assert_allclose(layer(tf.gather(IDS, items), items), tf.gather(IDS, items) + rest, atol=1e-6)
    np.testing.assert_allclose(layer.of_known(items), layer.of_columns(tf.gather(given, items)), atol=1e-6)
    every = tf.range(ROWS)
    with draws_at(7, np.array([1, 0], np.int32)):
        found = layer(IDS, every, training=True) - layer.of_category(tf.gather(OF_ITEMS, every)) - layer.of_known(every)
    dropped = np.asarray(tf.reduce_all(tf.abs(found) < 1e-6, -1))
    assert 0.4 < dropped.mean() < 0.6
    np.testing.assert_allclose(tf.boolean_mask(found, ~dropped), IDS.numpy()[~dropped], atol=1e-6)
