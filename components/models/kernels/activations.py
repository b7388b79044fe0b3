"""The sigmoid and the hyperbolic tangent of vectors."""

from __future__ import annotations

import numpy as np

from components.compiled import kernel
from components.models.kernels.vectors import everywhere, power_of_two, within

_ONE, _TWO = np.float32(1), np.float32(2)
_LARGEST = np.float32(87)  # e**87 is below the largest float, and 2**126 above it
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
# Added and taken away again, it rounds to a whole number, which then stands in the lowest bits of the sum.
_ROUND = np.float32(12582912)
# The polynomial of the Cephes library for (e**x - 1 - x) / x**2 on +-ln(2) / 2.
_C5, _C4, _C3, _C2, _C1, _C0 = (
    np.float32(c)
    for c in (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
)


@kernel
def exp(x):  # type: ignore[no-untyped-def]
    """e**x; beyond +-87 that of 87."""
    x = within(x, _LARGEST)
    rounded = x * everywhere(_LOG2_E) + everywhere(_ROUND)
    n = rounded - everywhere(_ROUND)
    x = x - n * everywhere(_LN2_HIGH) - n * everywhere(_LN2_LOW)
    p = everywhere(_C5) * x + everywhere(_C4)
    p = p * x + everywhere(_C3)
    p = p * x + everywhere(_C2)
    p = p * x + everywhere(_C1)
    p = p * x + everywhere(_C0)
    return (p * x * x + x + everywhere(_ONE)) * power_of_two(rounded)


@kernel
def sigmoid(x):  # type: ignore[no-untyped-def]
    """1 / (1 + e**-x)."""
    return everywhere(_ONE) / (everywhere(_ONE) + exp(everywhere(np.float32(0)) - x))


@kernel
def tanh(x):  # type: ignore[no-untyped-def]
    """The hyperbolic tangent, to 2e-7."""
    return everywhere(_TWO) / (everywhere(_ONE) + exp(everywhere(-_TWO) * x)) - everywhere(_ONE)
