"""Means with their intervals, as the tables show them."""

from __future__ import annotations

import numpy as np

from components.metrics import mean_interval


def interval_text(values: np.ndarray, users: np.ndarray, sign: str = "", digits: int = 3) -> str:
    """The mean, and its interval of the bootstrap over users where there are enough of them.

    Args:
        values: float ``[n]``; NaN is left out.
        users: whose each value is, ``[n]``.
        sign: ``+`` for differences.
        digits: after the point.
    """
    has = np.isfinite(values)
    interval = mean_interval(values[has], clusters=users[has])
    form = f"{sign}.{digits}f"
    if np.isnan(interval.low):
        return f"{interval.estimate:{form}}"
    return f"{interval.estimate:{form}} ({interval.low:{form}} to {interval.high:{form}})"
