from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.attention import (
    FURTHEST,
    attend,
    dot_scores,
    masked_softmax,
    pool,
    top_k_mask,
    weighted_sum,
)
from components.models.ops.choice import as_with_gpu, training_back_end


@contextmanager
def for_xla() -> Iterator[None]:
    with as_with_gpu(), training_back_end(True):
        yield


def test_a_dot_score_is_the_sum_of_products_of_item_and_target():
    items = tf.constant([[[1.0, 2.0], [3.0, -1.0]]])
    # 1*2 + 2*5 and 3*2 - 1*5
    np.testing.assert_allclose(dot_scores(items, tf.constant([[2.0, 5.0]])), [[12.0, 1.0]])


def test_a_history_of_nothing_but_padding_gets_no_attention_and_no_gradient():
    scores = tf.Variable([[3.0, -2.0, 0.0]])
    with tf.GradientTape() as tape:
        attention = masked_softmax(scores, tf.zeros([1, 3], tf.bool))
        total = tf.reduce_sum(attention * [[1.0, 2.0, 3.0]])
    np.testing.assert_array_equal(attention, np.zeros((1, 3)))
    np.testing.assert_array_equal(tape.gradient(total, scores), np.zeros((1, 3)))


@pytest.mark.parametrize("best", [-200.0, 0.0, 200.0])
def test_scores_up_to_the_limit_below_the_best_have_attention(best: float):
    below = np.array([[FURTHEST + 0.5, FURTHEST, 0, FURTHEST - 0.5, 87, 88, 104, 1000]], np.float32)
    attention = masked_softmax(tf.constant(best - below), tf.ones(below.shape, tf.bool))
    np.testing.assert_allclose(attention, np.where(below <= FURTHEST, np.exp(-below), 0), rtol=1e-5)


@pytest.mark.parametrize("masked", [5.0, 500.0])
def test_one_is_shared_out_among_the_positions_that_count_by_the_best_of_them(masked: float):
    attention = masked_softmax(tf.constant([[masked, 1.0, 2.0]]), tf.constant([[False, True, True]]))
    e1, e2 = np.exp(1), np.exp(2)
    np.testing.assert_allclose(attention, [[0.0, e1 / (e1 + e2), e2 / (e1 + e2)]], rtol=1e-6)


def test_attention_at_the_limit_is_a_normal_float_however_long_the_history():
    attention = masked_softmax(tf.constant([[-FURTHEST, *[0.0] * 100_000]]), tf.ones([1, 100_001], tf.bool))
    np.testing.assert_allclose(attention[0, 0], np.exp(-FURTHEST) / 100_000, rtol=1e-4)
    assert attention[0, 0] > 100 * np.finfo(np.float32).tiny


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_a_score_that_is_no_number_is_not_hidden(broken: float):
    attention = masked_softmax(tf.constant([[1.0, broken, 2.0], [1.0, 3.0, 2.0]]), tf.ones([2, 3], tf.bool))
    assert np.isnan(attention[0, 1]) and np.isfinite(attention[1]).all()


def test_half_precision_scores_give_a_single_precision_softmax():
    attention = masked_softmax(tf.constant([[60000.0, -60000.0]], tf.float16), tf.constant([[True, True]]))
    assert attention.dtype == tf.float32
    np.testing.assert_array_equal(attention, [[1.0, 0.0]])


def test_the_k_highest_scores_are_marked():
    mask = top_k_mask(tf.constant([[0.1, 0.4, 0.2, 0.3]]), 2)
    np.testing.assert_array_equal(mask, [[False, True, False, True]])


def test_of_equal_scores_the_earlier_positions_are_marked():
    mask = top_k_mask(tf.constant([[0.2, 0.5, 0.2, 0.2]]), 3)
    np.testing.assert_array_equal(mask, [[True, True, True, False]])


def test_a_score_of_zero_is_never_marked():
    for k in (2, 3):
        np.testing.assert_array_equal(top_k_mask(tf.constant([[0.0, 0.7, 0.0]]), k), [[False, True, False]])


@pytest.mark.parametrize(
    ("known", "back_end"),
    [(True, nullcontext), (False, nullcontext), (True, for_xla)],
    ids=["length known", "length unknown", "by counting for XLA"],
)
@pytest.mark.parametrize("k", [1, 5, 9, 12, 13])
def test_marking_agrees_with_sorting_on_random_scores_with_ties(k, known, back_end):
    scores = np.random.default_rng(0).integers(0, 6, (200, 12)).astype(np.float32)
    expected = np.zeros_like(scores, bool)
    for row, marks in zip(scores, expected, strict=True):
        for position in np.argsort(-row, kind="stable")[:k]:
            marks[position] = row[position] > 0
    shape = tf.TensorSpec((None, 12 if known else None))
    mark = tf.function(lambda scores: top_k_mask(scores, k), input_signature=[shape])
    with back_end():
        np.testing.assert_array_equal(mark(scores), expected)


def test_pooling_adds_up_the_history_under_each_weighting():
    items = tf.constant([[[1.0, 2.0], [3.0, 4.0]]])
    # 0.5*(1,2) + 0.25*(3,4) and 1*(3,4)
    np.testing.assert_allclose(pool(tf.constant([[[0.5, 0.25], [0.0, 1.0]]]), items), [[[1.25, 2.0], [3.0, 4.0]]])


@pytest.mark.parametrize(("dtype", "within"), [(tf.float32, 1e-5), (tf.float16, 1e-2)], ids=["float32", "float16"])
def test_sums_of_products_are_products_for_xla(dtype: tf.DType, within: float):
    random = np.random.default_rng(1)
    items, target, weights = (tf.constant(random.normal(size=n), dtype) for n in ((4, 9, 6), (4, 6), (4, 9)))
    for function, given in ((dot_scores, (items, target)), (weighted_sum, (weights, items))):
        expected = function(*given)
        with for_xla():
            found = function(*given)
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(found, expected, atol=within)


@pytest.mark.parametrize("back_end", [nullcontext, for_xla], ids=["definition", "for XLA"])
def test_attending_is_scoring_weighing_and_pooling_with_the_same_gradients(back_end):
    random = np.random.default_rng(3)
    items, target, upstream = (tf.constant(random.normal(size=n).astype("f")) for n in ((2, 5, 3), (2, 3), (2, 2, 3)))
    mask = tf.constant([[False, True, True, True, True], [True, True, False, True, False]])

    def weigh(scores):
        attention = masked_softmax(scores, mask)
        return tf.stack([attention, masked_softmax(scores, top_k_mask(attention, 2))], 1)

    def gradients(sums):
        with tf.GradientTape() as tape:
            tape.watch([items, target])
            loss = tf.reduce_sum(sums() * upstream)
        return [loss, *tape.gradient(loss, [items, target])]

    expected = gradients(lambda: pool(weigh(dot_scores(items, target)), items))
    with back_end():
        found = gradients(lambda: attend(items, target, weigh))
    for own, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(own, right, atol=1e-6)
