import numpy as np

from components.models.layers.weights import Weights


def test_a_weight_depends_on_its_name_and_seed_and_not_on_the_order():
    first, second = Weights(7), Weights(7)
    first.glorot("other", (3, 4))
    np.testing.assert_array_equal(first.glorot("kernel", (3, 4)), second.glorot("kernel", (3, 4)))


def test_another_seed_or_scope_gives_other_weights():
    kernel = Weights(7).glorot("kernel", (3, 4)).numpy()
    assert not np.allclose(kernel, Weights(8).glorot("kernel", (3, 4)))
    assert not np.allclose(kernel, Weights(7).scope("part").glorot("kernel", (3, 4)))


def test_an_orthogonal_weight_keeps_lengths():
    (first, second) = Weights(7).orthogonal("kernels", (2, 5, 5)).numpy()
    np.testing.assert_allclose(first @ first.T, np.eye(5), atol=1e-6)
    assert not np.allclose(first, second)


def test_rows_of_a_cut_normal_are_drawn_as_the_whole_weight_is(monkeypatch):
    draws = []
    drawn = Weights.drawn
    monkeypatch.setattr(
        Weights, "drawn", lambda self, name, shape, draw: draws.append(draw) or drawn(self, name, shape, draw)
    )
    whole = Weights(1).glorot_normal("table", (50, 13)).numpy()
    for first, count in ((0, 5), (7, 20), (49, 1)):
        np.testing.assert_array_equal(draws[0](first, count), whole[first : first + count])
