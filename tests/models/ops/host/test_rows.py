import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import host_back_end
from components.models.ops.host import rows
from components.models.ops.rows import sum_by_row
from tests.models.ops.host.agreement import CALL, operations

ROWS = 1000


def _slices(count: int, width: int, kind: type) -> tf.IndexedSlices:
    random = np.random.default_rng(count)
    indices: np.ndarray = np.append(random.integers(0, 50, count), [ROWS - 1] * 2).astype(kind)
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
        with host_back_end(allowed):
            return sum_by_row(given)

    assert (CALL in operations(compute, slices.values, slices.indices)) == (allowed and width % 16 == 0)
    named, sums = (result.numpy() for result in compute(slices.values, slices.indices))
    expected = _expected(slices)
    assert named.dtype == kind
    assert sorted(named) == sorted(set(slices.indices.numpy()))
    np.testing.assert_allclose(sums, expected[named], atol=1e-4)


def test_rows_that_are_named_once_and_in_order_are_handed_on():
    values = np.random.default_rng(1).normal(size=(50, 16)).astype("f")
    assert rows.summed(values, np.arange(50, dtype=np.int32), 50) is values
    swapped = rows.summed(values, np.arange(50, dtype=np.int32)[::-1], 50)
    np.testing.assert_array_equal(swapped, values[::-1])


@pytest.mark.parametrize("shares", [1, 2, 8])
def test_sums_do_not_depend_on_how_many_threads_share_the_rows(monkeypatch: pytest.MonkeyPatch, shares: int):
    random = np.random.default_rng(2)
    places = random.integers(0, 101, 5000).astype(np.int32)  # more at once than are sorted out
    values = random.normal(size=(5000, 32)).astype("f")
    expected = np.zeros((101, 32), np.float32)
    np.add.at(expected, places, values)
    monkeypatch.setattr(rows, "shares", lambda: shares)
    np.testing.assert_allclose(rows.summed(values, places, 101), expected, atol=1e-4)


@pytest.mark.parametrize("write", ["scatter_update", "scatter_sub"])
def test_a_table_that_was_read_where_it_stands_stays_what_it_was_when_rows_are_written(write: str):
    table, ones = tf.Variable(tf.ones([100, 16])), np.ones((100, 16), "f")
    for _ in range(2):  # the second time it has been written by row before
        table.assign(ones)
        held = rows.whole(table)
        getattr(table, write)(tf.IndexedSlices(tf.fill([1, 16], 5.0), [7]))
        np.testing.assert_array_equal(held, ones)
        np.testing.assert_array_equal(rows.whole(table), table.numpy())
        assert table.numpy()[7, 0] != 1.0
