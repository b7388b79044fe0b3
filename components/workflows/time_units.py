"""The unit of times that are numbers: seconds since 1970, or a thousandth, a millionth or a billionth of them."""

from __future__ import annotations

import numpy as np

# Seconds since 1970 of 1985 to 2128, which no other unit reaches with times of these years.
_FIRST, _LAST = 5e8, 5e9
_UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}


class TimeUnits:
    """Collects the units in which the values of a column may be times."""

    def __init__(self) -> None:
        self._found: set[str] = set()

    def add(self, values: np.ndarray) -> None:
        """Takes numbers, without NaN."""
        for name, unit in _UNITS.items():
            if ((values >= _FIRST * unit) & (values < _LAST * unit)).any():
                self._found.add(name)

    @property
    def per_second(self) -> float:
        """How many of the only unit a second has; 1 where none or several are known."""
        return _UNITS[next(iter(self._found))] if len(self._found) == 1 else 1.0

    @property
    def mixed(self) -> str:
        """The units, if there are several; else empty."""
        return " and in ".join(sorted(self._found)) if len(self._found) > 1 else ""
