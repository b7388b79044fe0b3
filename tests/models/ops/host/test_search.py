"""The search kernel against the same search in TensorFlow's operations."""

import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.attention import FURTHEST
from components.models.ops.choice import host_back_end
from components.models.ops.host import rows
from components.models.ops.host import search as kernels
from components.models.ops.search import search

WIDTH, ROWS = 16, 40


def _differentiated(table, places, mask, target, k):
    upstream = np.random.default_rng(7).normal(size=(len(target), 3, target.shape[1])).astype("f")
    with tf.GradientTape() as tape:
        tape.watch(target)
        sums = tf.stack(search(table, places, mask, target, k), 1)
    of_table, of_target = tape.gradient(sums, [table, target], upstream)
    return [value.numpy() for value in (sums, tf.convert_to_tensor(of_table), of_target)]


def _agree(
    table: np.ndarray, places: np.ndarray, mask: np.ndarray, target: np.ndarray, k: int, tolerance: float = 3e-5
) -> list[np.ndarray]:
    given = tf.Variable(table), tf.constant(places), tf.constant(mask), tf.constant(target), k
    expected = _differentiated(*given)
    with host_back_end():
        results = _differentiated(*given)
    for result, wanted in zip(results, expected, strict=True):
        largest = np.abs(wanted).max(initial=1.0)
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=tolerance * largest)
    return results


def _case(
    samples: int, length: int, features: int, scale: float = 0.5
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(samples + length)
    table = (scale * random.normal(size=(ROWS, WIDTH))).astype("f")
    places = random.integers(0, ROWS, (samples, length, features)).astype(np.int32)
    target = random.normal(size=(samples, features * WIDTH)).astype("f")
    present = np.arange(length) >= random.integers(0, length + 1, samples)[:, None]
    return table, places, present, target


@pytest.mark.slow
@pytest.mark.parametrize("k", [1, 3, 50])
@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("length", [1, 5, 16, 33])
@pytest.mark.parametrize("samples", [1, 70])
def test_sums_and_gradients_are_those_of_tensorflow(samples: int, length: int, features: int, k: int):
    _agree(*_case(samples, length, features), k)


def test_gradients_do_not_depend_on_how_many_threads_share_the_rows(monkeypatch: pytest.MonkeyPatch):
    case = _case(70, 33, 2)
    results = []
    for shares in (1, 2, 8):
        monkeypatch.setattr(rows, "shares", lambda shares=shares: shares)
        results.append(_agree(*case, 5))
    for others in results[1:]:
        for one, other in zip(results[0], others, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6 * max(np.abs(one).max(initial=0), 1))


def test_items_that_are_equal_are_found_oldest_first():
    table, places, mask, target = _case(9, 20, 2)
    places[:, 5:] = places[:, 5:6]  # far more items of one score than are found
    _agree(table, places, np.ones_like(mask), target, 4)


def test_padding_may_stand_between_items():
    table, places, mask, target = _case(30, 24, 2)
    mask[:, ::3] = False
    _agree(table, places, mask, target, 5)


def test_a_history_of_nothing_but_padding_finds_nothing():
    table, places, mask, target = _case(6, 24, 2)
    mask[::2] = False
    sums, _, of_target = _agree(table, places, mask, target, 5)
    assert not sums[::2].any()
    assert not of_target[::2].any()


def test_items_are_found_up_to_the_limit_below_the_best():
    below = np.array([0, 1, FURTHEST - 0.5, FURTHEST, FURTHEST + 0.5, 87, 88, 104, 1000], np.float32)
    items = len(below)
    table = np.zeros((items, WIDTH), np.float32)
    table[:, 0] = 5 - below  # a score, which no rounding changes
    table[:, 1 : 1 + items] = np.eye(items)  # tells which items a sum holds
    target = np.zeros((1, WIDTH), np.float32)
    target[0, 0] = 1
    places = np.arange(items, dtype=np.int32)[np.newaxis, ::-1, np.newaxis]
    sums, *_ = _agree(table, places, np.ones((1, items), bool), target, 50)
    attention, attended, mean = sums[0, :, 1 : 1 + items]
    found = below <= FURTHEST
    np.testing.assert_allclose(attention, found * np.exp(-below) / np.exp(-below).sum(), rtol=1e-5)
    np.testing.assert_allclose(attended, attention, rtol=1e-5)
    np.testing.assert_allclose(mean, found / (found.sum() + 1), rtol=1e-6)


def test_scores_may_lie_far_apart():
    table, places, mask, target = _case(8, 24, 2, scale=15)
    # Scores reach 216, whose unit in the last place, 1.5e-5, the softmax makes a relative error.
    _agree(table, places, np.ones_like(mask), target, 20, tolerance=1e-4)


@pytest.mark.parametrize("broken", [np.nan, np.inf])
@pytest.mark.parametrize("everywhere", [False, True])
def test_an_item_that_is_no_number_is_not_hidden(everywhere: bool, broken: float):
    table, places, mask, target = _case(6, 24, 2)
    table[:3] = 0.5
    mask[:] = True
    places[...] = 1 + places % (ROWS - 1)
    places[4, :, 0] = 0 if everywhere else places[4, :, 0]
    places[4, 7] = 0
    table[0] = broken
    with host_back_end():
        sums, of_table, of_target = _differentiated(
            tf.Variable(table), tf.constant(places), tf.constant(mask), tf.constant(target), 5
        )
    assert not np.isfinite(sums[4, :2]).any()
    assert np.isfinite(sums[[0, 1, 2, 3, 5]]).all()
    assert not np.isfinite(of_table[0]).all()
    assert not np.isfinite(of_target[4]).all()


def test_a_batch_may_be_empty():
    table, places, mask, target = (values[:0] if number else values for number, values in enumerate(_case(4, 24, 2)))
    sums, of_table, _ = _agree(table, places, mask, target, 5)
    assert sums.shape == (0, 3, 2 * WIDTH)
    assert not of_table.any()


@pytest.mark.parametrize(("width", "dtype"), [(32, tf.float16), (8, tf.float32)])
def test_a_model_of_another_precision_or_width_is_left_to_tensorflow(width: int, dtype: tf.DType):
    rows, mask = tf.zeros([3, 5, 2], tf.int32), tf.ones([3, 5], tf.bool)
    assert (
        kernels.search(tf.Variable(tf.zeros([4, width])), rows, mask, tf.zeros([3, 2 * width], dtype), 2)
        is NotImplemented
    )
