"""A pytest plugin that stands for another processor: TensorFlow's results round by their shape.

Processors, back ends and sizes of batches sum products in other orders, so that their results differ in the last bits.
Here each float32 result of a product, a sum or a transcendental function is moved by up to three units in the last
place, by its shape and its place in it. The same computation gives the same bits; one on another batch does not. A
test that compares such results, or bins, ranks and thresholds made of them, for equality fails. Results with few
significant bits, such as counts, are exact on every processor and stay.

Use: ``python -m pytest -p tests.rounding``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_FURTHEST = 3  # units in the last place
_PRIME = 1009
_LOW_BITS = 0xFF  # of the mantissa; all 0 in results that are exact
_OPERATIONS = {
    "gen_linalg_ops": ("einsum",),
    "gen_math_ops": (
        "batch_mat_mul", "batch_mat_mul_v2", "batch_mat_mul_v3", "exp", "log", "log1p", "mat_mul", "mean", "sigmoid",
        "_sum", "tanh",
    ),
    "gen_nn_ops": ("softmax", "softplus"),
}  # fmt: skip


def rounded(result: Any) -> Any:
    """The result, moved in its last bits; gradients pass through."""
    import tensorflow as tf

    if not isinstance(result, tf.Tensor) or result.dtype != tf.float32:
        return result
    size = tf.size(result, tf.int64)
    place = tf.reshape(tf.range(size), tf.shape(result))
    drawn = tf.math.floormod(7919 * place + 104_729 * size, _PRIME)
    moved = tf.math.floormod(drawn, 2 * _FURTHEST + 1) - _FURTHEST
    # In int64: TensorFlow computes with int32 on the host, which tests of graphs for GPUs forbid.
    bits = tf.cast(tf.bitcast(result, tf.int32), tf.int64)
    moved = tf.where(tf.bitwise.bitwise_and(bits, tf.constant(_LOW_BITS, tf.int64)) == 0, tf.zeros_like(bits), moved)
    other = tf.bitcast(tf.cast(bits + moved, tf.int32), tf.float32)
    return tf.where(tf.math.is_finite(result), result + tf.stop_gradient(other - result), result)


def _rounding(operation: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(operation)
    def called(*args: Any, **kwargs: Any) -> Any:
        return rounded(operation(*args, **kwargs))

    return called


@pytest.fixture(scope="session", autouse=True)
def results_round_by_their_shape() -> Iterator[None]:
    """All tests run with TensorFlow's operations replaced."""
    from tensorflow.python import ops

    with pytest.MonkeyPatch.context() as patch:
        for name, operations in _OPERATIONS.items():
            module = getattr(ops, name)
            for operation in operations:
                patch.setattr(module, operation, _rounding(getattr(module, operation)))
        yield
