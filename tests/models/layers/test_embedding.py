import numpy as np
import tensorflow as tf

from components.models.layers.embedding import FusedEmbedding, Ids
from components.models.layers.weights import Weights


def test_each_feature_reads_its_own_table():
    embedding = FusedEmbedding(Weights(1), (10, 4, 3), width=2)
    ids = np.array([[1, 0], [10, 4]], np.int32)
    items, users = embedding([Ids(tf.constant(ids), 0), Ids(tf.constant([[3], [1]]), 2)])
    first, second, third = (embedding.table(i).numpy() for i in range(3))
    np.testing.assert_array_equal(items, np.concatenate([first[ids[:, 0]], second[ids[:, 1]]], 1))
    np.testing.assert_array_equal(users, third[[3, 1]])


def test_a_table_starts_uniform_within_one_over_the_root_of_its_rows():
    table = FusedEmbedding(Weights(1), (9999, 24), width=8).table(0).numpy()
    assert table.shape == (10_000, 8)
    assert 0.0099 < np.abs(table).max() <= 0.01
    assert abs(table.mean()) < 1e-4


def test_any_number_of_axes_is_embedded_at_once():
    embedding = FusedEmbedding(Weights(1), (10, 4), width=2)
    (items,) = embedding([Ids(tf.zeros([2, 3, 5, 2], tf.int32), 0)])
    assert items.shape == (2, 3, 5, 4)


def test_the_gradient_is_sparse_and_names_every_row_read():
    embedding = FusedEmbedding(Weights(1), (10, 4), width=2)
    with tf.GradientTape() as tape:
        (items,) = embedding([Ids(tf.constant([[1, 3], [1, 0]]), 0)])
        total = tf.reduce_sum(items)
    gradient = tape.gradient(total, embedding.tables)
    assert isinstance(gradient, tf.IndexedSlices)
    # The second table starts at row 11.
    assert sorted(gradient.indices.numpy()) == [1, 1, 11, 14]
