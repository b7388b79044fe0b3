import numpy as np
import tensorflow as tf

from components.feature_spec import Feature
from components.models.layers.embedding_tables import EmbeddingTables
from components.models.layers.weights import Weights

CITY, TAGS = Feature("city", "int64", 9), Feature("tags", "int64", 5, 3)


def test_each_feature_reads_its_own_table_of_its_own_width():
    embed = EmbeddingTables(Weights(1), (CITY, TAGS), (8, 4))
    city, _ = embed({"city": tf.constant([2, 0]), "tags": tf.zeros([2, 3], tf.int32)})
    table = embed.tables["city"].variable.numpy()
    assert table.shape == (10, 8)
    np.testing.assert_array_equal(city, table[[2, 0]])


def test_a_list_is_the_sum_of_its_rows_without_padding():
    embed = EmbeddingTables(Weights(1), (TAGS,), (4,))
    (tags,) = embed({"tags": tf.constant([[0, 1, 5], [0, 0, 0]])})
    table = embed.tables["tags"].variable.numpy()
    np.testing.assert_allclose(tags, [table[1] + table[5], np.zeros(4)], rtol=1e-6)


def test_an_id_that_a_table_lacks_reads_as_missing():
    embed = EmbeddingTables(Weights(1), (CITY, TAGS), (8, 4))
    city, tags = embed({"city": tf.constant([10, -1]), "tags": tf.constant([[0, 0, 6], [0, -2, 0]])})
    np.testing.assert_array_equal(city, embed.tables["city"].variable.numpy()[[0, 0]])
    np.testing.assert_array_equal(tags, np.zeros([2, 4]))


def test_a_table_starts_uniform_within_one_over_the_root_of_its_rows():
    embed = EmbeddingTables(Weights(1), (Feature("city", "int64", 9999),), (8,))
    values = embed.tables["city"].variable.numpy()
    assert 0.0099 < np.abs(values).max() <= 0.01
