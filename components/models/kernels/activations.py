"""The sigmoid and the hyperbolic tangent of vectors."""

from __future__ import annotations

import numpy as np

from components.compiled import kernel
from components.models.kernels.vectors import everywhere, power_of_two, reciprocal, within

_ONE, _TWO = np.float32(1), np.float32(2)
_LARGEST = np.float32(87)  # e**87 is below the largest float, and 2**126 above it
_LOG2_E = np.float32(1.4426950408889634)
_LN2 = np.float32(0.6931471805599453)
# Added and taken away again, it rounds to a whole number, which then stands in the lowest bits of the sum.
_ROUND = np.float32(12582912)
# The polynomial of degree 5 whose largest relative error from e**x on +-ln(2) / 2 is least, found by Remez' exchange:
# 1.9e-7 in float32, of which a sigmoid keeps a quarter at most.
_C5, _C4, _C3, _C2, _C1, _C0 = (
    np.float32(c)
    for c in (8.2976479666e-3, 4.1915431435e-2, 1.6667575091e-1, 4.9998894413e-1, 9.9999969181e-1, 1.0000000717)
)


@kernel
def exp(x):  # type: ignore[no-untyped-def]
    """e**x; beyond +-87 that of 87."""
    x = within(x, _LARGEST)
    rounded = x * everywhere(_LOG2_E) + everywhere(_ROUND)
    x = x - (rounded - everywhere(_ROUND)) * everywhere(_LN2)
    p = everywhere(_C5) * x + everywhere(_C4)
    p = p * x + everywhere(_C3)
    p = p * x + everywhere(_C2)
    p = p * x + everywhere(_C1)
    p = p * x + everywhere(_C0)
    return p * power_of_two(rounded)


@kernel
def sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + e**-x)."""
    return reciprocal(everywhere(_ONE) + exp(everywhere(np.float32(0)) - x))


@kernel
def tanh(x):  # type: ignore[no-untyped-def]
    """The hyperbolic tangent, to 2e-7."""
    return everywhere(_TWO) * reciprocal(everywhere(_ONE) + exp(everywhere(-_TWO) * x)) - everywhere(_ONE)
