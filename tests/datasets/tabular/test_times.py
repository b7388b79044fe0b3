"""Times of rows: one format a column, and what reads in two ways is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from components.errors import KfrecError
from components.workflows.times import Times


def read(*values: Any, format: str = "", kind: pa.DataType | None = None) -> list[float]:
    found, wrong = Times("day", format, "schema.yaml: split").read(pa.array(list(values), kind), ("", "NA"))
    assert not wrong.any()
    return list(found)


def seconds(*parts: int, **ahead: float) -> float:
    return datetime(*parts, tzinfo=timezone(timedelta(**ahead))).timestamp()  # type: ignore[misc, arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-03-05", seconds(2024, 3, 5)),
        ("2024/3/5", seconds(2024, 3, 5)),
        ("2024-03-05 1:02", seconds(2024, 3, 5, 1, 2)),
        ("2024-03-05T01:02:03Z", seconds(2024, 3, 5, 1, 2, 3)),
        ("2024-03-05 01:02:03.5 UTC", seconds(2024, 3, 5, 1, 2, 3) + 0.5),
        ("2024-03-05T01:02:03+05:30", seconds(2024, 3, 5, 1, 2, 3, hours=5, minutes=30)),
        ("2024-03-05 01:02:03-0800", seconds(2024, 3, 5, 1, 2, 3, hours=-8)),
        ("1969-12-31 23:59:59", -1.0),
        ("2024-02-29", seconds(2024, 2, 29)),
        ("9999-12-31", seconds(9999, 12, 31)),
        (" 1709600523 ", 1709600523.0),
    ],
)
def test_a_time_in_text(text: str, expected: float) -> None:
    np.testing.assert_allclose(read(text), [expected], atol=1e-5)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (datetime(9999, 12, 31), pa.timestamp("us")),
        (datetime(9999, 12, 31).date(), pa.date32()),
        (datetime(2024, 3, 5), pa.timestamp("ns")),
        (datetime(2024, 3, 5, tzinfo=UTC), pa.timestamp("ms", "Europe/Rome")),
    ],
    ids=str,
)
def test_a_column_of_times(value: Any, kind: pa.DataType) -> None:
    np.testing.assert_allclose(read(value, kind=kind), [seconds(value.year, value.month, value.day)])


def test_a_stated_format() -> None:
    assert read("03/04/2024", "31/12/2023", format="%d/%m/%Y") == [seconds(2024, 4, 3), seconds(2023, 12, 31)]
    _, wrong = Times("day", "%d/%m/%Y", "").read(pa.array(["04/31/2024", "NA", "1/1/2024"]), ("NA",))
    assert wrong.tolist() == [True, False, False]


def test_a_stated_format_may_have_fractions_and_zones() -> None:
    assert read("03/04/2024 10:00:00.5", format="%d/%m/%Y %H:%M:%S.%f") == [seconds(2024, 4, 3, 10) + 0.5]
    assert read("03/04/2024 10:00 +0200", format="%d/%m/%Y %H:%M %z") == [seconds(2024, 4, 3, 8)]


def test_days_in_digits_are_read_in_a_stated_format() -> None:
    found, wrong = Times("day", "%Y%m%d", "").read(pa.array([20240403, 20241301, None]), ())
    assert found[0] == seconds(2024, 4, 3) and wrong.tolist() == [False, True, False]


def test_missing_and_impossible_times() -> None:
    found, wrong = Times("day", "", "").read(pa.array(["2023-02-29", "2024-13-01", "NA", "unknown", None]), ("NA",))
    assert np.isnan(found).all() and wrong.tolist() == [True, True, False, True, False]


@pytest.mark.parametrize("text", ["03/04/2024", "13/04/2024", "4-3-2024", "Mar 5, 2024", "5. March 2024", "05.03.24"])
def test_a_date_whose_format_is_not_stated_is_refused(text: str) -> None:
    with pytest.raises(KfrecError, match=r"schema\.yaml: split: column day is '.*', a date that is not .*; state how"):
        read("2024-01-01", text)


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([["2024-01-01"], ["1709600523"]], "holds numbers and dates"),
        ([["2024-01-01", "1709600523"]], "holds numbers and dates"),
        ([[1709600523.0], [1709600523000.0]], "holds times in milliseconds and in seconds since 1970"),
        ([["20240403"], ["1709600523"]], "holds times in days as YYYYMMDD and in seconds since 1970"),
    ],
    ids=["in two batches", "in one", "seconds and milliseconds", "days and seconds"],
)
def test_two_kinds_in_a_column_are_refused(batches: list[list[Any]], message: str) -> None:
    times = Times("day", "", "schema.yaml: split")
    with pytest.raises(KfrecError, match=f"column day {message}"):
        for batch in batches:
            times.read(pa.array(batch), ())


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ([1709600523], "2024-01-01", "'2024-01-01' is of the kind dates, and column day holds numbers"),
        (["2024-01-01"], 1709600523, "is of the kind numbers, and column day holds dates"),
        ([1709600523000], 1709600523, "and column day are in milliseconds and in seconds since 1970; give one unit"),
        (["2024-01-01"], "May", "'May' is not a time; write it as 2013-11-01 12:00:00"),
        (["2024-01-01"], "1/2/2024", "'1/2/2024' is not a time"),
    ],
)
def test_a_time_of_the_schema_is_of_the_columns_kind(column: list[Any], value: Any, message: str) -> None:
    times = Times("day", "", "schema.yaml: split")
    times.read(pa.array(column), ())
    with pytest.raises(KfrecError, match=f"schema.yaml: split: since: .*{message}"):
        times.require_kind(value, "since")
