from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.models import make_optimizer
from components.models.ops.choice import as_with_gpu, training_back_end
from components.models.ops.scaling import Scaling

SCALE = 1024.0
SHAPES = [(3, 4), (5,), (2, 2, 2), (1 << 18, 2)]  # the last one is not small


def moved(on_gpu: bool, decay: float, verdicts: list[bool | None]) -> list[np.ndarray]:
    """Variables and state after a step for each verdict."""
    random = np.random.default_rng(0)
    variables = [tf.Variable(random.normal(size=shape).astype("f")) for shape in SHAPES]
    optimizer: Any = make_optimizer("adam", 0.1, weight_decay=decay)
    optimizer.build(variables)
    for verdict in verdicts:
        size = 1.0 if verdict is None else SCALE if verdict else np.nan
        gradients = [tf.constant(size * random.normal(size=shape).astype("f")) for shape in SHAPES]
        pairs = list(zip(gradients, variables, strict=True))
        inverse = tf.constant(1.0 / SCALE if verdict else 0.0)
        scaling = Scaling() if verdict is None else Scaling(inverse, tf.constant(verdict))
        if on_gpu:
            with as_with_gpu(), training_back_end():
                optimizer.apply(pairs, scaling)
        else:
            optimizer.apply(pairs, scaling)
    return [v.numpy() for v in (*variables, *optimizer.variables)]


@pytest.mark.parametrize("decay", [0.0, 0.25])
@pytest.mark.parametrize("verdicts", [[None] * 3, [False, True, True, False]], ids=["always", "not always"])
def test_variables_moved_together_move_as_each_alone(decay: float, verdicts: list):
    for own, right in zip(moved(True, decay, verdicts), moved(False, decay, verdicts), strict=True):
        np.testing.assert_allclose(own, right, atol=1e-5)
