import gc

import numpy as np
import tensorflow as tf

from components.models.kernels import host

SIZE = 12_347  # of no other array


def _place(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_only_when_nobody_holds_it():
    array = host.floats(SIZE)
    first = _place(array)
    view = array.reshape(1, -1)[0, 5:]
    del array
    gc.collect()
    other = host.floats(SIZE)
    assert _place(other) != first
    del view
    gc.collect()
    assert _place(host.floats(SIZE)) == first


def test_sizes_that_change_from_batch_to_batch_do_not_pile_up():
    places = {_place(host.floats(size, 16)) for size in range(203_000, 206_000, 10)}
    assert len(places) <= 2


def test_arrays_begin_where_tensorflow_need_not_copy_them():
    assert all(_place(host.floats(size)) % 64 == 0 for size in (1, 3, 100, SIZE))
    assert host.floats(4, 0, 3).shape == (4, 0, 3)


def test_what_tensorflow_holds_is_not_overwritten():
    def filled(value: np.ndarray) -> list[np.ndarray]:
        array = host.floats(SIZE)
        array[:] = value[0]
        return [array]

    @tf.function(autograph=False)
    def fill(value: tf.Tensor) -> tf.Tensor:
        return host.call(filled, [value], [tf.TensorShape([SIZE])])[0]

    results = [fill(tf.constant([float(number)])) for number in range(5)]
    for number, result in enumerate(results):
        np.testing.assert_array_equal(result, np.full(SIZE, number, np.float32))


def test_parts_cover_everything_once():
    for total in (0, 1, 2, 17):
        seen: list[int] = []
        parts: list[int] = []

        def work(part: int, first: int, last: int, seen: list[int] = seen, parts: list[int] = parts) -> None:
            seen.extend(range(first, last))
            parts.append(part)

        host.in_parts(work, total)
        assert sorted(seen) == list(range(total))
        assert len(parts) <= host.parts(total)
        assert set(parts) == set(range(len(parts)))


def test_kernels_are_allowed_only_within():
    assert not host.are_allowed()
    with host.host_kernels():
        assert host.are_allowed()
        with host.host_kernels(False):
            assert not host.are_allowed()
        assert host.are_allowed()
    assert not host.are_allowed()
