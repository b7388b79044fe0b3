import gc

import numpy as np
import pytest
import tensorflow as tf

from components.native import arrays
from components.train.loop.transfer import tensors


def _filled(rows: int, value: int) -> np.ndarray:
    array = arrays.empty([rows, 3], np.int32)
    array[:] = value
    return array


def test_a_batch_is_in_the_memory_of_its_arrays_for_as_long_as_it_is_needed():
    array = _filled(1000, 1)
    (tensor,) = tensors({"ids": array}).values()
    array[5] = 2
    assert tensor.numpy()[5].tolist() == [2, 2, 2]
    del array
    gc.collect()
    others = [_filled(1000, 3) for _ in range(5)]
    assert np.unique(tensor).tolist() == [1, 2] and len(others) == 5


@pytest.mark.parametrize("kind", ["elsewhere", "transposed", "read-only", "empty", "int64"])
def test_what_cannot_be_shared_is_copied(kind: str):
    array = np.arange(60, dtype=np.int64 if kind == "int64" else np.int32).reshape(6, 10)
    if kind == "elsewhere":
        array = arrays.empty([61], np.int32)[1:].reshape(6, 10)
        array[:] = 1
    elif kind == "transposed":
        array = array.T
    elif kind == "read-only":
        array.flags.writeable = False
    elif kind == "empty":
        array = array[:0]
    (tensor,) = tensors({"ids": array}).values()
    assert tensor.dtype == tf.int32
    np.testing.assert_array_equal(tensor, array)
