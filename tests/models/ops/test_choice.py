import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import host_back_end
from components.models.ops.dense import rectified_layers
from components.models.ops.host import rectified

WEIGHTS = [np.ones(shape, np.float32) for shape in ((16, 3), (3,), (3,))]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tf.Tensor]:
    """The inputs that the host back end of the rectified layers is called with."""
    seen: list[tf.Tensor] = []
    kernels = rectified.rectified_layers

    def recorded(x: tf.Tensor, *weights: tf.Tensor) -> tf.Tensor:
        seen.append(x)
        return kernels(x, *weights)

    monkeypatch.setattr(rectified, "rectified_layers", recorded)
    return seen


def test_the_host_back_end_runs_only_within(calls: list[tf.Tensor]):
    x = tf.ones([2, 16])
    expected = rectified_layers(x, *WEIGHTS)
    assert not calls
    with host_back_end():
        np.testing.assert_allclose(rectified_layers(x, *WEIGHTS), expected)
        assert len(calls) == 1
        with host_back_end(False):
            rectified_layers(x, *WEIGHTS)
        assert len(calls) == 1
    rectified_layers(x, *WEIGHTS)
    assert len(calls) == 1


def test_what_the_host_does_not_support_is_computed_by_the_definition(calls: list[tf.Tensor]):
    x = tf.ones([2, 16], tf.float16)
    with host_back_end():
        assert rectified_layers(x, *WEIGHTS).dtype == tf.float16
    assert len(calls) == 1
