"""The unit of times that are numbers: seconds since 1970, thousandths of them and less, or days as YYYYMMDD."""

from __future__ import annotations

import numpy as np

# Seconds since 1970 of 1985 to 2128, which no other unit reaches with times of these years.
_FIRST, _LAST = 5e8, 5e9
_UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
_DAYS = "days as YYYYMMDD"


class TimeUnits:
    """Collects the units in which the values of a column may be times."""

    def __init__(self) -> None:
        self._found: set[str] = set()

    def add(self, values: np.ndarray) -> None:
        """Takes numbers, without NaN."""
        for name, unit in _UNITS.items():
            if ((values >= _FIRST * unit) & (values < _LAST * unit)).any():
                self._found.add(name)
        year, month, day = values // 10_000, values // 100 % 100, values % 100
        is_day = (year >= 1900) & (year < 2100) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
        if is_day.any() and (is_day & (day == np.floor(day))).sum() == len(values[values < _FIRST]):
            self._found.add(_DAYS)

    @property
    def per_second(self) -> float:
        """How many of the only unit a second has; 1 where none or several are known."""
        return _UNITS.get(next(iter(self._found)), 1.0) if len(self._found) == 1 else 1.0

    @property
    def are_days(self) -> bool:
        """Whether the only unit is that of days as YYYYMMDD."""
        return self._found == {_DAYS}

    @property
    def mixed(self) -> str:
        """The units, if there are several; else empty."""
        return self.together(self)

    def together(self, other: TimeUnits) -> str:
        """The units of both, if both have one and they are several; else empty."""
        found = sorted(self._found | other._found) if self._found and other._found else []
        return f"{' and in '.join(found)} since 1970" if len(found) > 1 else ""
