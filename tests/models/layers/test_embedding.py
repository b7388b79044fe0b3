import numpy as np
import tensorflow as tf

from components.models.layers.embedding import FusedEmbedding
from components.models.layers.weights import Weights


def test_each_feature_reads_its_own_table():
    embedding = FusedEmbedding(Weights(1), (10, 4, 3), width=2)
    ids = np.array([[1, 0], [10, 4]], np.int32)
    items, users = embedding(embedding.rows(list(ids.T), 0)), embedding(embedding.rows([tf.constant([3, 1])], 2))
    first, second, third = (embedding.table(i).numpy() for i in range(3))
    np.testing.assert_array_equal(items, np.concatenate([first[ids[:, 0]], second[ids[:, 1]]], 1))
    np.testing.assert_array_equal(users, third[[3, 1]])


def test_a_table_starts_uniform_within_one_over_the_root_of_its_rows():
    table = FusedEmbedding(Weights(1), (9999, 24), width=8).table(0).numpy()
    assert table.shape == (10_000, 8)
    assert 0.0099 < np.abs(table).max() <= 0.01
    assert abs(table.mean()) < 1e-4


def test_an_id_that_a_table_lacks_reads_its_padding():
    embedding = FusedEmbedding(Weights(1), (10, 4), width=2)
    rows = embedding.rows([tf.constant([-1, 10, 11]), tf.constant([4, 5, -7])], 0)
    # The second table starts at row 11.
    np.testing.assert_array_equal(rows, [[0, 15], [10, 11], [0, 11]])


def test_any_number_of_axes_is_embedded_at_once():
    embedding = FusedEmbedding(Weights(1), (10, 4), width=2)
    ids = tf.zeros([2, 3, 5], tf.int32)
    items = embedding(embedding.rows([ids, ids], 0))
    assert items.shape == (2, 3, 5, 4)


def test_the_gradient_is_sparse_and_names_every_row_read():
    embedding = FusedEmbedding(Weights(1), (10, 4), width=2)
    with tf.GradientTape() as tape:
        items = embedding(embedding.rows([tf.constant([1, 1]), tf.constant([3, 0])], 0))
        total = tf.reduce_sum(items)
    gradient = tape.gradient(total, embedding.tables)
    assert isinstance(gradient, tf.IndexedSlices)
    # The second table starts at row 11.
    assert sorted(gradient.indices.numpy()) == [1, 1, 11, 14]
