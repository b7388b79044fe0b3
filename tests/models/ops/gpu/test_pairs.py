import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import as_with_gpu, training_back_end
from components.models.ops.pairs import score_pairs


@pytest.mark.parametrize("share", [(5,), (4, 5)], ids=["a bias", "a share of each sample"])
@pytest.mark.parametrize("steps", [2, 3])
def test_scores_and_gradients_are_those_of_the_definition(share: tuple[int, ...], steps: int):
    random = np.random.default_rng(0)
    shapes = [(3, 4, 6), (2, steps, 4, 7), share, (6, 5), (7, 5), (5, 3), (3,), (3, 1), (1,)]
    given = [tf.constant(random.normal(size=shape).astype("f")) for shape in shapes]

    def scores_and_gradients():
        with tf.GradientTape() as tape:
            tape.watch(given)
            scores = score_pairs(*given)
            total = tf.reduce_sum(tf.sin(scores))
        return [scores, *tape.gradient(total, given)]

    with as_with_gpu(), training_back_end():
        found = scores_and_gradients()
    for own, right in zip(found, scores_and_gradients(), strict=True):
        np.testing.assert_allclose(own, right, atol=1e-5)
