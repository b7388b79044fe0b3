import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.attention import attend, dot_scores, masked_softmax, top_k_mask, weighted_sum
from components.models.ops.choice import as_with_gpu, training_back_end


def for_xla(function, *given):
    with as_with_gpu(), training_back_end(True):
        return function(*given)


@pytest.mark.parametrize("k", [1, 5, 9, 12, 13])
def test_marking_by_counting_is_marking_by_sorting_with_ties(k: int):
    scores = tf.constant(np.random.default_rng(0).integers(0, 6, (200, 12)).astype(np.float32))
    np.testing.assert_array_equal(for_xla(top_k_mask, scores, k), top_k_mask(scores, k))


@pytest.mark.parametrize(("dtype", "within"), [(tf.float32, 1e-5), (tf.float16, 1e-2)])
def test_sums_of_products_are_products(dtype: tf.DType, within: float):
    random = np.random.default_rng(1)
    items, target, weights = (tf.constant(random.normal(size=n), dtype) for n in ((4, 9, 6), (4, 6), (4, 9)))
    for function, given in ((dot_scores, (items, target)), (weighted_sum, (weights, items))):
        expected, found = function(*given), for_xla(function, *given)
        assert expected.dtype == found.dtype
        np.testing.assert_allclose(found, expected, atol=within)


def test_attending_has_the_gradients_of_the_definition():
    random = np.random.default_rng(3)
    items, target, upstream = (tf.constant(random.normal(size=n).astype("f")) for n in ((2, 5, 3), (2, 3), (2, 2, 3)))
    mask = tf.constant([[False, True, True, True, True], [True, True, False, True, False]])

    def weigh(scores):
        attention = masked_softmax(scores, mask)
        return tf.stack([attention, masked_softmax(scores, top_k_mask(attention, 2))], 1)

    def gradients():
        with tf.GradientTape() as tape:
            tape.watch([items, target])
            loss = tf.reduce_sum(attend(items, target, weigh) * upstream)
        return [loss, *tape.gradient(loss, [items, target])]

    for own, right in zip(for_xla(gradients), gradients(), strict=True):
        np.testing.assert_allclose(own, right, atol=1e-5)
