import gc

import numpy as np
import pytest

from components.native import arrays

SIZE = 12_347  # of no other array


def _place(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


@pytest.mark.slow
def test_memory_is_used_again_only_when_nobody_holds_it():
    array = arrays.empty([SIZE], np.float32)
    first = _place(array)
    view = array.reshape(1, -1)[0, 5:]
    del array
    gc.collect()
    other = arrays.empty([SIZE], np.float32)
    assert _place(other) != first
    del view
    gc.collect()
    assert _place(arrays.empty([SIZE], np.float32)) == first


def test_sizes_that_change_from_batch_to_batch_do_not_pile_up():
    places = {_place(arrays.empty([size, 16], np.float32)) for size in range(203_000, 206_000, 10)}
    assert len(places) <= 2


def test_arrays_begin_where_tensorflow_need_not_copy_them():
    assert all(_place(arrays.empty([size], np.float32)) % 64 == 0 for size in (1, 3, 100, SIZE))
    assert arrays.empty([4, 0, 3], np.int64).shape == (4, 0, 3)
