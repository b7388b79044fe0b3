"""Computations on the host kernels and by TensorFlow's own operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from components.models.ops.choice import host_back_end

CALL = "PyFuncStateless"


def operations(function: Any, *given: Any) -> list[str]:
    """The operations of a traced function."""
    return [node.type for node in function.get_concrete_function(*given).graph.get_operations()]


def results(compute: Callable[[], tf.Tensor], sources: Sequence[Any], allowed: bool = True) -> list[np.ndarray]:
    """The result, and the gradients of what it comes from, by kernels or without them."""

    def differentiated() -> list[tf.Tensor]:
        with host_back_end(allowed), tf.GradientTape() as tape:
            tape.watch(sources)
            result = compute()
            weights = tf.cos(tf.cast(tf.reshape(tf.range(tf.size(result)), tf.shape(result)), tf.float32))
            loss = tf.reduce_sum(result * weights)
        return [result, *tape.gradient(loss, sources, unconnected_gradients="zero")]

    if not allowed:  # TensorFlow's own operations are traced and optimised for longer than they compute
        return [values.numpy() for values in differentiated()]
    traced = tf.function(differentiated, autograph=False)
    assert CALL in operations(traced)
    return [values.numpy() for values in traced()]


def assert_agreement(compute: Callable[[], tf.Tensor], sources: Sequence[Any]) -> None:
    for own, expected in zip(*(results(compute, sources, allowed) for allowed in (True, False)), strict=True):
        assert own.shape == expected.shape
        np.testing.assert_allclose(own, expected, atol=1e-5 * max(np.abs(expected).max(initial=0), 1))


def assert_same_bits(compute: Callable[[], tf.Tensor], sources: Sequence[Any]) -> None:
    first = results(compute, sources)
    for _ in range(5):
        for one, other in zip(first, results(compute, sources), strict=True):
            np.testing.assert_array_equal(one, other)
