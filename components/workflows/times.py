"""Times of rows as sortable numbers: one format and one unit for a whole column."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from components.errors import KfrecError
from components.workflows.values import Scalar, is_text, numbers, texts

# Seconds since 1970 of 1985 to 2128, which no other unit reaches with times of these years.
_FIRST, _LAST = 5e8, 5e9
_UNITS = {"seconds": 1.0, "milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9}
_DAYS = "days as YYYYMMDD"
# A year first, then month and day, and a time with fractions and a zone, each if wanted.
_ISO = (
    r"^(?P<year>\d{4})[-/](?P<month>\d{1,2})[-/](?P<day>\d{1,2})"
    r"(?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:\.\d+)?))?"
    r"(?: ?(?:Z|UTC|(?P<sign>[+-])(?P<ahead>\d{2}):?(?P<ahead_minutes>\d{2})?))?)?$"
)
# Digits with what stands between the parts of a date, or a month's name.
_LIKE_A_DATE = r"\d[-/. ,:] ?[\dA-Za-z]|[A-Za-z]{3,9}\.? \d"
NUMBERS, DATES = "numbers", "dates"


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


class Times:
    """Reads a column of times: numbers, or dates as seconds since 1970 (UTC).

    A date is written with the year first (ISO 8601), or in the stated format, since 03/04/2024 reads in two ways.

    Args:
        column: its name, for messages.
        format: of the dates, as of strptime; empty is ISO 8601.
        place: where column and format are stated, for messages.
        remedy: how a format is stated, for messages.

    Attributes:
        kind: NUMBERS or DATES, empty until a value was read.
    """

    def __init__(
        self, column: str, format: str, place: str, remedy: str = "such as format: '%d/%m/%Y', under split"
    ) -> None:
        self._column, self._format, self._place, self._remedy = column, format, place, remedy
        self._units = TimeUnits()
        self.kind = ""

    def read(self, column: pa.Array, missing: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Values of the column.

        Returns:
            values: float64, NaN where a value is missing or wrong.
            wrong: bool, where it is neither missing nor a time.

        Raises:
            KfrecError: it holds dates of another format, numbers and dates, or numbers of two units.
        """
        if pa.types.is_temporal(column.type):
            return self._dates(_seconds(column), column)
        if self._format and (is_text(column.type) or pa.types.is_integer(column.type)):
            text = texts(column, missing)
            return self._dates(_stated(text, self._format), text)
        if not is_text(column.type):
            return self._numbers(*numbers(column, missing))
        text = texts(column, missing)
        values, wrong = numbers(column, missing)
        dated = pc.fill_null(pc.match_substring_regex(text, _ISO), False)
        self._require_format(text, wrong & ~dated.to_numpy(zero_copy_only=False))
        if not pc.any(dated).as_py():
            return self._numbers(values, wrong)
        if not np.isnan(values).all():
            self._note(NUMBERS)
        values[dated.to_numpy(zero_copy_only=False)] = _iso(text.filter(dated))
        return self._dates(pa.array(values), text)

    @property
    def per_second(self) -> float:
        """How many of the numbers' units a second has; 1 for dates, and where the unit is not known."""
        return self._units.per_second if self.kind == NUMBERS else 1.0

    def require_kind(self, value: Scalar | None, name: str) -> float:
        """A time of the schema, of the column's kind.

        Raises:
            KfrecError: it is no time, or a date where the column has numbers, or the reverse.
        """
        own = Times(self._column, self._format, self._place)
        try:
            values, wrong = own.read(pa.array([str(value)]), ())
        except KfrecError:
            wrong = np.array([True])
        if wrong[0]:
            example = f"in the format {self._format}" if self._format else "as 2013-11-01 12:00:00"
            raise KfrecError(f"{self._place}: {name}: {value!r} is not a time; write it {example}")
        if self.kind and own.kind != self.kind:
            raise KfrecError(
                f"{self._place}: {name}: {value!r} is of the kind {own.kind}, and column {self._column} holds "
                f"{self.kind}; write it as the column does"
            )
        if own.kind == NUMBERS and (units := self._units.together(own._units)):
            raise KfrecError(
                f"{self._place}: {name}: {value!r} and column {self._column} are in {units}; give one unit"
            )
        return float(values[0])

    @property
    def what(self) -> str:
        """What a value should be, for messages."""
        return f"a time in the format {self._format}" if self._format else "a time"

    @property
    def are_days(self) -> bool:
        """Whether the numbers are dates written as YYYYMMDD."""
        return self.kind == NUMBERS and self._units.are_days

    def _numbers(self, values: np.ndarray, wrong: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        known = values[~np.isnan(values)]
        if len(known):
            self._note(NUMBERS)
            self._units.add(known)
        if units := self._units.mixed:
            raise KfrecError(f"{self._place}: column {self._column} holds times in {units}; give one unit")
        return values, wrong

    def _dates(self, seconds: pa.Array, column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        if not pa.types.is_floating(seconds.type):
            seconds = seconds.cast(pa.int64()).cast(pa.float64())
        values = np.array(seconds.to_numpy(zero_copy_only=False))
        if not np.isnan(values).all():
            self._note(DATES)
        return values, np.isnan(values) & pc.is_valid(column).to_numpy(zero_copy_only=False)

    def _note(self, kind: str) -> None:
        if self.kind not in ("", kind):
            raise KfrecError(
                f"{self._place}: column {self._column} holds numbers and dates; give all rows one kind of time"
            )
        self.kind = kind

    def _require_format(self, text: pa.Array, other: np.ndarray) -> None:
        """Refuses dates in another format; other text is a wrong value."""
        looks = pc.fill_null(pc.match_substring_regex(text, _LIKE_A_DATE), False)
        dated = looks.to_numpy(zero_copy_only=False) & other
        if dated.any():
            raise KfrecError(
                f"{self._place}: column {self._column} is {text[int(np.argmax(dated))].as_py()!r}, a date "
                "that is not written as 2013-11-01 12:00:00, with the year first; state how it is written, "
                f"{self._remedy}"
            )


def _stated(text: pa.Array, format: str) -> pa.Array:
    """Times in a stated format, null where they are in another."""
    if "%f" in format or "%z" in format:  # Arrow knows no fractions, and ignores zones
        import pandas as pd

        found = pd.to_datetime(text.to_pandas(), format=format, errors="coerce", utc=True)
        return _seconds(pa.array(found, pa.timestamp("us", "UTC"), safe=False))
    return pc.strptime(text, format=format, unit="s", error_is_null=True)


def _seconds(column: pa.Array) -> pa.Array:
    """Seconds since 1970, float64, of a temporal column; null for a time of day."""
    kind = column.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        micro = column.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        return pc.divide(micro.cast(pa.int64()).cast(pa.float64(), safe=False), 1e6)
    return pa.nulls(len(column), pa.float64())


def _iso(text: pa.Array) -> np.ndarray:
    """Seconds since 1970 of texts in ISO 8601, NaN for a day or time that does not exist."""
    parts = pc.extract_regex(text, _ISO)

    def part(name: str) -> np.ndarray:
        found = pc.struct_field(parts, name)
        return np.asarray(pc.if_else(pc.equal(found, ""), "0", found).cast(pa.float64()).to_numpy(zero_copy_only=False))

    month = (part("year") - 1970).astype("M8[Y]").astype("M8[M]") + (part("month") - 1).astype("m8[M]")
    first, days = month.astype("M8[D]"), ((month + 1).astype("M8[D]") - month.astype("M8[D]")).astype(float)
    exists = (part("month") >= 1) & (part("month") <= 12) & (part("day") >= 1) & (part("day") <= days)
    exists &= (part("hour") < 24) & (part("minute") < 60) & (part("second") < 61)
    ahead = 3600 * part("ahead") + 60 * part("ahead_minutes")
    ahead = np.where(pc.equal(pc.struct_field(parts, "sign"), "-").to_numpy(zero_copy_only=False), -ahead, ahead)
    seconds = 86_400 * (first.astype(float) + part("day") - 1) + 3600 * part("hour") + 60 * part("minute")
    return np.where(exists, seconds + part("second") - ahead, np.nan)
