import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import host_back_end
from components.models.ops.host import rows
from components.models.ops.rows import sum_by_row


def slices(dtype: tf.DType = tf.float32) -> tf.IndexedSlices:
    return tf.IndexedSlices(tf.ones([3, 16], dtype), tf.constant([4, 2, 4]), tf.constant([9, 16]))


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tf.IndexedSlices]:
    """The gradients that the host back end is called with."""
    seen: list[tf.IndexedSlices] = []
    kernels = rows.sum_by_row

    def recorded(gradient: tf.IndexedSlices) -> tuple[tf.Tensor, tf.Tensor]:
        seen.append(gradient)
        return kernels(gradient)

    monkeypatch.setattr(rows, "sum_by_row", recorded)
    return seen


def test_the_host_back_end_runs_only_within(calls: list[tf.IndexedSlices]):
    def sums() -> dict[int, float]:
        found, values = sum_by_row(slices())
        return dict(zip(found.numpy().tolist(), values[:, 0].numpy().tolist(), strict=True))

    assert sums() == {4: 2.0, 2: 1.0} and not calls
    with host_back_end():
        assert sums() == {4: 2.0, 2: 1.0}
        assert len(calls) == 1
        with host_back_end(False):
            sums()
        assert len(calls) == 1
    sums()
    assert len(calls) == 1


def test_what_the_host_does_not_support_is_computed_by_the_definition(calls: list[tf.IndexedSlices]):
    with host_back_end():
        _, values = sum_by_row(slices(tf.float16))
    assert values.dtype == tf.float16
    np.testing.assert_array_equal(values[:, 0], [2.0, 1.0])
    assert len(calls) == 1
