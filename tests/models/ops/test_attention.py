import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.attention import FURTHEST, attend, dot_scores, masked_softmax, pool, top_k_mask


def test_a_dot_score_is_the_sum_of_products_of_item_and_target():
    items = tf.constant([[[1.0, 2.0], [3.0, -1.0]]])
    # 1*2 + 2*5 and 3*2 - 1*5
    np.testing.assert_allclose(dot_scores(items, tf.constant([[2.0, 5.0]])), [[12.0, 1.0]])


def test_a_masked_softmax_shares_out_one_among_the_positions_that_count():
    attention = masked_softmax(tf.constant([[5.0, 1.0, 2.0]]), tf.constant([[False, True, True]]))
    e1, e2 = np.exp(1), np.exp(2)
    np.testing.assert_allclose(attention, [[0.0, e1 / (e1 + e2), e2 / (e1 + e2)]], rtol=1e-6)


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


def test_the_best_score_is_that_of_the_positions_that_count():
    attention = masked_softmax(tf.constant([[500.0, 1.0, 2.0]]), tf.constant([[False, True, True]]))
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


@pytest.mark.parametrize("known", [True, False], ids=["length known", "length unknown"])
@pytest.mark.parametrize("k", [1, 5, 9, 12, 13])
def test_marking_agrees_with_sorting_on_random_scores_with_ties(k, known):
    scores = np.random.default_rng(0).integers(0, 6, (200, 12)).astype(np.float32)
    expected = np.zeros_like(scores, bool)
    for row, marks in zip(scores, expected, strict=True):
        for position in np.argsort(-row, kind="stable")[:k]:
            marks[position] = row[position] > 0
    shape = tf.TensorSpec((None, 12 if known else None))
    mark = tf.function(lambda scores: top_k_mask(scores, k), input_signature=[shape])
    np.testing.assert_array_equal(mark(scores), expected)


def test_pooling_adds_up_the_history_under_each_weighting():
    items = tf.constant([[[1.0, 2.0], [3.0, 4.0]]])
    # 0.5*(1,2) + 0.25*(3,4) and 1*(3,4)
    np.testing.assert_allclose(pool(tf.constant([[[0.5, 0.25], [0.0, 1.0]]]), items), [[[1.25, 2.0], [3.0, 4.0]]])


def test_attending_is_scoring_weighing_and_pooling_with_the_same_gradients():
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
    for own, right in zip(gradients(lambda: attend(items, target, weigh)), expected, strict=True):
        np.testing.assert_allclose(own, right, atol=1e-6)
