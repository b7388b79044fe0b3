import numpy as np
import pytest
import tensorflow as tf

from components.models.layers.dropout import Dropout, masks_of
from components.models.layers.weights import Weights

ONES = np.ones((200, 50), "f")


def _mask(layer: Dropout, rank: int = 0) -> np.ndarray:
    with masks_of(rank):
        return tf.function(layer, autograph=False)(tf.constant(ONES)).numpy()


def test_a_share_of_the_units_is_zero_and_the_others_make_up_for_it():
    dropped = _mask(Dropout(Weights(1), 0.25))
    np.testing.assert_allclose(np.unique(dropped), [0, 1 / 0.75], rtol=1e-6)
    assert abs((dropped == 0).mean() - 0.25) < 0.02


def test_ranks_draw_different_masks_and_keep_the_same_state():
    layers = [Dropout(Weights(1), 0.5) for _ in range(2)]
    masks = [_mask(layer, rank) for rank, layer in enumerate(layers)]
    assert abs((masks[0] == masks[1]).mean() - 0.5) < 0.02
    for first, second in zip(layers[0].variables, layers[1].variables, strict=True):
        np.testing.assert_array_equal(first, second)


def test_every_step_layer_and_seed_has_its_own_mask():
    layer = Dropout(Weights(1), 0.5)
    masks = [
        _mask(layer),
        _mask(layer),
        _mask(Dropout(Weights(1).scope("other"), 0.5)),
        _mask(Dropout(Weights(2), 0.5)),
    ]
    for i in range(4):
        for j in range(i):
            assert abs((masks[i] == masks[j]).mean() - 0.5) < 0.02


@pytest.mark.parametrize("rank", [0, 1])
def test_the_first_ranks_state_restores_the_masks_of_every_rank(rank, tmp_path):
    first, whole = Dropout(Weights(1), 0.5), Dropout(Weights(1), 0.5)
    _mask(first)
    _mask(whole, rank)
    saved = tf.train.Checkpoint(layer=first).save(str(tmp_path / "checkpoint"))
    restored = Dropout(Weights(2), 0.5)
    tf.train.Checkpoint(layer=restored).restore(saved).assert_consumed()
    np.testing.assert_array_equal(_mask(restored, rank), _mask(whole, rank))


def test_half_precision_stays_half_precision():
    assert Dropout(Weights(1), 0.5)(tf.constant(ONES, tf.float16)).dtype == tf.float16
