import numpy as np
import pytest
import tensorflow as tf

from components.models.ops.choice import as_with_gpu, training_back_end
from components.models.ops.rows import dense_gradients
from components.models.ops.search import search

ROWS = np.array([[[0, 4], [1, 5], [2, 6], [1, 6]], [[0, 4], [0, 4], [3, 5], [2, 5]], [[0, 4]] * 4])


def sums_and_gradients(table: tf.Variable, dtype: tf.DType) -> list[tf.Tensor]:
    rows, target = tf.constant(ROWS), tf.constant(np.random.default_rng(1).normal(size=(3, 8)), dtype)
    with tf.GradientTape() as tape:
        tape.watch(target)
        sums = search(table, rows, rows[..., 0] > 0, target, 2)
        total = tf.add_n([tf.reduce_sum(tf.sin(tf.cast(value, tf.float32)) * (i + 1)) for i, value in enumerate(sums)])
    return [*sums, *map(tf.convert_to_tensor, tape.gradient(total, [table, target]))]


@pytest.mark.parametrize("compiled", [False, True], ids=["launched one by one", "for XLA"])
@pytest.mark.parametrize(("dtype", "within"), [(tf.float32, 1e-5), (tf.float16, 2e-2)])
def test_sums_and_gradients_are_those_of_the_definition(compiled: bool, dtype: tf.DType, within: float):
    table = tf.Variable(np.random.default_rng(0).normal(size=(7, 4)).astype("f"))
    with as_with_gpu(), training_back_end(compiled), dense_gradients([table]):
        found = sums_and_gradients(table, dtype)
    for own, right in zip(found, sums_and_gradients(table, tf.float32), strict=True):
        np.testing.assert_allclose(own, right, atol=within)


def test_the_gradient_of_the_history_is_never_in_memory():
    table = tf.Variable(tf.zeros([7, 4]))
    with as_with_gpu(), training_back_end(), dense_gradients([table]):
        graph = tf.function(lambda: sums_and_gradients(table, tf.float32)).get_concrete_function().graph
    largest = [tensor for op in graph.get_operations() for tensor in op.outputs if tensor.shape == (3, 4, 8)]
    assert [tensor.op.type for tensor in largest] == ["Reshape"]  # the history itself
