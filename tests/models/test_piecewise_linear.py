"""The pieces of a quantile, worked out by hand."""

import numpy as np
import tensorflow as tf

from components.contract import PIECES
from components.models.tabular import piecewise_linear


def test_the_pieces_below_a_quantile_are_full_and_its_own_is_filled_in_part():
    encoded = piecewise_linear(tf.constant([[0.0, 2.25 / PIECES], [1.0, 0.5]])).numpy()
    rest = [0.0] * (PIECES - 3)
    np.testing.assert_allclose(encoded[0], [0.0] * PIECES + [1, 1, 0.25, *rest], atol=1e-5)
    np.testing.assert_allclose(encoded[1], [1.0] * PIECES + [1] * (PIECES // 2) + [0] * (PIECES // 2), atol=1e-5)


def test_numbers_outside_the_quantiles_are_those_of_the_ends():
    encoded = piecewise_linear(tf.constant([[-1.0], [2.0]])).numpy()
    np.testing.assert_array_equal(encoded, [[0.0] * PIECES, [1.0] * PIECES])
