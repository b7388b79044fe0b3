"""What is fused on a GPU is what it is elsewhere, and so are its gradients."""

from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.attention import masked_softmax
from components.models.ops.choice import as_with_gpu, fused, training_back_end
from components.models.ops.dense import rectified_layers
from components.models.ops.losses import log_loss, next_item_losses
from components.models.ops.pairs import scaled, score_pairs
from components.models.ops.rows import rows_of


def numbers(*shape: int) -> tf.Tensor:
    return tf.constant(np.random.default_rng(len(shape)).normal(size=shape).astype("f"))


MASK = tf.constant([[True, True, False], [False, False, False]])
CASES: dict[str, tuple[Callable[..., tf.Tensor], list[tf.Tensor]]] = {
    "masked softmax": (lambda scores: masked_softmax(scores, MASK), [numbers(2, 3)]),
    "log loss": (lambda logits: log_loss(tf.constant([0.0, 1.0]), logits), [numbers(2)]),
    "next item": (lambda x, y: next_item_losses(x, y, MASK), [numbers(2, 3), numbers(2, 3) + 1]),
    "scaled": (scaled, [numbers(3, 2, 4), numbers(2, 4)]),
    "rectified": (
        rectified_layers,
        [numbers(5, 3), numbers(3, 4), numbers(4), numbers(4) + 1, numbers(4, 1), numbers(1)],
    ),
}
CASES |= {
    f"pairs at {steps} of 3 steps, {name}": (
        score_pairs,
        [numbers(*shape) for shape in [(3, 4, 6), (2, steps, 4, 7), share, (6, 5), (7, 5), (5, 3), (3,), (3, 1), (1,)]],
    )
    for name, share in (("a bias", (5,)), ("a share of each sample", (4, 5)))
    for steps in (2, 3)
}


def outputs_and_gradients(function: Callable, given: list[tf.Tensor]) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        tape.watch(given)
        outputs = function(*given)
        total = tf.reduce_sum(tf.sin(outputs))
    return [outputs, *tape.gradient(total, given)]


@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_are_those_of_the_definition(case: str):
    with as_with_gpu(), training_back_end():
        found = outputs_and_gradients(*CASES[case])
    for own, right in zip(found, outputs_and_gradients(*CASES[case]), strict=True):
        np.testing.assert_allclose(own, right, atol=1e-5)


@pytest.mark.parametrize("time_first", [False, True])
def test_rows_are_those_of_the_definition(time_first: bool):
    given = [tf.constant([[0, 9, 2], [-1, 1, 3]], tf.int64)] * 2, (2, 3), (0, 3), 1, None, time_first
    with as_with_gpu(), training_back_end():
        found = rows_of(*given)
    np.testing.assert_array_equal(found, rows_of(*given))


def test_on_a_gpu_it_is_one_call_unless_xla_compiles_all_around():
    @fused
    def twice(x):
        return (x + x) * 1.0

    kinds = {}
    for compiled in (False, True):
        with as_with_gpu(), training_back_end(compiled):
            graph = tf.function(lambda: twice(tf.constant(1.0)), autograph=False).get_concrete_function().graph
        kinds[compiled] = {operation.type for operation in graph.get_operations()}
    assert "AddV2" not in kinds[False] and "AddV2" in kinds[True]
