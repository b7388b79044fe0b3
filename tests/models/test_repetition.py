import numpy as np
import tensorflow as tf

from components.models.channels import read_channels
from components.models.inputs import HALF_LIVES, Repetition


def test_the_counts_are_of_the_targets_ids_and_fade_with_age(spec):
    layer = Repetition(read_channels(spec, negatives=False))
    features = {
        "item_trgt": tf.constant([4, 9, 0]),
        "cat_trgt": tf.constant([2, 2, 0]),
        # Left-padded: the newest item is the last one.
        "item_pos": tf.constant([[0, 0, 0, 0, 4, 7, 4, 8], [0, 0, 0, 0, 0, 0, 0, 3], [0] * 8]),
        "cat_pos": tf.constant([[0, 0, 0, 0, 2, 3, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1], [0] * 8]),
    }
    half_lives = np.array(HALF_LIVES)
    items = np.log1p(0.5 ** (1 / half_lives) + 0.5 ** (3 / half_lives))
    categories = np.log1p(1 + 0.5 ** (1 / half_lives) + 0.5 ** (3 / half_lives))
    expected = np.stack([np.concatenate([items, categories]), np.zeros(layer.width), np.zeros(layer.width)])
    np.testing.assert_allclose(layer(features), expected, rtol=1e-5)
