"""The sigmoid and the hyperbolic tangent of vectors."""

from __future__ import annotations

import numpy as np

from components.models.ops.host.vectors import at_most, beside_whole, everywhere, reciprocal, scaled
from components.native.compiled import kernel

_ONE, _TWO = np.float32(1), np.float32(2)
_LARGEST = np.float32(126)  # 2**126 is below the largest float
_LOG2_E = np.float32(1.4426950408889634)
# Minimax polynomial of degree 5 for 2**x on +-1/2 that is 1 at 0; its relative error is at most 9e-8. It is increasing
# near 0, which preserves the order of scores.
_C5, _C4, _C3, _C2, _C1 = (
    np.float32(c) for c in (1.32647147241e-3, 9.67150870491e-3, 5.55073373721e-2, 2.40222421459e-1, 6.93146977628e-1)
)


@kernel
def _power_of_two(x):  # type: ignore[no-untyped-def]
    """2**x; clamped to 2**126 above, and close to 0 far below -126."""
    x = at_most(x, _LARGEST)
    rest = beside_whole(x)
    p = everywhere(_C5) * rest + everywhere(_C4)
    p = p * rest + everywhere(_C3)
    p = p * rest + everywhere(_C2)
    p = p * rest + everywhere(_C1)
    p = p * rest + everywhere(_ONE)
    return scaled(p, x - rest)


@kernel
def exp(x):  # type: ignore[no-untyped-def]
    """e**x; clamped to e**87 above, and close to 0 far below -87."""
    return _power_of_two(x * everywhere(_LOG2_E))


@kernel
def sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + e**-x)."""
    return reciprocal(everywhere(_ONE) + _power_of_two(x * everywhere(-_LOG2_E)))


@kernel
def tanh(x):  # type: ignore[no-untyped-def]
    """The hyperbolic tangent, to 2e-7."""
    half = reciprocal(everywhere(_ONE) + _power_of_two(x * everywhere(-_TWO * _LOG2_E)))
    return everywhere(_TWO) * half - everywhere(_ONE)
