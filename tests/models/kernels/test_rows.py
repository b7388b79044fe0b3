import numpy as np
import pytest
import tensorflow as tf

from components.models.kernels import rows
from components.models.kernels.host import host_kernels
from components.models.optimizers.rows import as_dense, sum_by_row

ROWS = 1000


def _slices(count: int, width: int, kind: type) -> tf.IndexedSlices:
    random = np.random.default_rng(count)
    indices = np.append(random.integers(0, 50, count), [ROWS - 1] * 2).astype(kind)
    values = random.normal(size=(count + 2, width)).astype("f")
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([ROWS, width]))


def _expected(slices: tf.IndexedSlices) -> np.ndarray:
    dense = np.zeros(slices.dense_shape.numpy())
    np.add.at(dense, slices.indices.numpy(), slices.values.numpy())
    return dense


@pytest.mark.parametrize("allowed", [False, True])
@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("width", [16, 48, 5])
@pytest.mark.parametrize("count", [0, 7, 5000])
def test_rows_that_are_named_more_than_once_are_summed(count: int, width: int, kind: type, allowed: bool):
    slices = _slices(count, width, kind)

    @tf.function(autograph=False)
    def compute(values: tf.Tensor, indices: tf.Tensor) -> tuple[tf.Tensor, ...]:
        given = tf.IndexedSlices(values, indices, tf.constant([ROWS, width]))
        with host_kernels(allowed):
            assert rows.fits(values) == (allowed and width % 16 == 0)
            return *sum_by_row(given), as_dense(given)

    named, sums, dense = (result.numpy() for result in compute(slices.values, slices.indices))
    expected = _expected(slices)
    np.testing.assert_allclose(dense, expected, atol=1e-4)
    assert named.dtype == kind
    assert sorted(named) == sorted(set(slices.indices.numpy()))
    np.testing.assert_allclose(sums, expected[named], atol=1e-4)


def test_the_gradient_of_a_whole_table_is_handed_on():
    gradient = tf.ones([4, 16])
    with host_kernels():
        np.testing.assert_array_equal(as_dense(gradient), gradient)
