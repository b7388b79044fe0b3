"""The parametric rectifier: one pass over the memory forward, and one backward, instead of TensorFlow's twelve.

The equations are those of :class:`components.models.layers.prelu.PReLU`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from components.compiled import kernel
from components.models.kernels import host

_ZERO = np.float32(0)


def fits(x: tf.Tensor) -> bool:
    """Whether the kernels may be called for ``[N, units]``."""
    return host.are_allowed() and x.dtype == tf.float32 and x.shape.rank == 2


@tf.custom_gradient
def rectified(x: tf.Tensor, alpha: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
    """``max(x, 0) + alpha * min(x, 0)``.

    Args:
        x: ``[N, units]``.
        alpha: ``[units]``.
    """

    def forward(x: np.ndarray, alpha: np.ndarray) -> list[np.ndarray]:
        out = host.floats(*x.shape)
        host.in_parts(lambda part, first, last: _forward(x, alpha, first, last, out), len(x))
        return [out]

    def backward(x: np.ndarray, alpha: np.ndarray, upstream: np.ndarray) -> list[np.ndarray]:
        of_x = host.floats(*x.shape)
        of_alpha = np.zeros((host.parts(len(x)), len(alpha)), np.float32)
        host.in_parts(
            lambda part, first, last: _backward(x, alpha, upstream, first, last, of_x, of_alpha[part]), len(x)
        )
        return [of_x, of_alpha.sum(0)]

    def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
        return host.call(backward, [x, alpha, upstream], [x.shape, alpha.shape])

    return host.call(forward, [x, alpha], [x.shape])[0], gradient


@kernel
def _forward(x, alpha, first, last, out):  # type: ignore[no-untyped-def]
    for row in range(first, last):
        for j in range(len(alpha)):
            value = x[row, j]
            out[row, j] = value if value > _ZERO else alpha[j] * value


@kernel
def _backward(x, alpha, upstream, first, last, of_x, of_alpha):  # type: ignore[no-untyped-def]
    """The gradient of x, and that of alpha, which is added; at 0 that of x is 0, as TensorFlow's is."""
    for row in range(first, last):
        for j in range(len(alpha)):
            value, own = x[row, j], upstream[row, j]
            of_x[row, j] = own if value > _ZERO else _ZERO if value == _ZERO else alpha[j] * own
            of_alpha[j] += _ZERO if value > _ZERO else own * value
