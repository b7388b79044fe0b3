"""Cron lines: what KFP's scheduler takes, and when it comes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from components.errors import KfrecError
from pipelines.cluster.cron import check_cron, last_time, next_times

UTC = ZoneInfo("UTC")
NEW_YEAR = datetime(2026, 1, 1, tzinfo=timezone.utc)  # a Thursday


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        ("0 2 * * *", "has 5 fields, KFP's has 6, seconds first; write '0 0 2 * * *' for the same times"),
        ("", "is not valid; write second, minute, hour"),
        ("@daily", "is not valid; write second, minute, hour"),
        ("0 0 25 * * *", "hour '25' is not valid; KFP takes 0 to 23"),
        ("0 0 2 * * 7", "day of week '7' is not valid; KFP takes 0 to 6"),
        ("0 0 22-2 * * *", "hour '22-2' is not valid"),
        ("0 0 2 L * *", "day of month 'L' is not valid"),
        ("0 0 2 * * 5#1", "day of week '5#1' is not valid"),
        ("0 0 2 15W * *", "day of month '15W' is not valid"),
        ("0 0 */0 * * *", "hour '*/0' is not valid"),
        ("0 0 2, * * *", "hour '2,' is not valid"),
        ("0 0 -2 * * *", "hour '-2' is not valid"),
        ("0 0 *-2 * * *", "hour '*-2' is not valid"),
        ("0 0 R * * *", "hour 'R' is not valid"),
        ("CRON_TZ=Europe/Berlin 0 0 2 * * *", "has one time zone for all schedules; remove CRON_TZ=Europe/Berlin"),
        ("* 0 2 * * *", "runs more than once a minute"),
        ("0,30 0 2 * * *", "runs more than once a minute"),
        ("0 0 2 31 2 *", "never matches"),
        ("0 0 2 */2 * 1", "write */n as a list of days"),
    ],
)
def test_what_kfp_would_refuse_or_misread_is_refused_in_one_line(cron: str, told: str) -> None:
    with pytest.raises(KfrecError) as error:
        check_cron(cron)
    assert told in str(error.value) and repr(cron) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("cron", "times"),
    [
        ("0 0 2 * * *", ["01-01 02:00", "01-02 02:00", "01-03 02:00"]),
        ("0 0 2 * * WED", ["01-07 02:00", "01-14 02:00", "01-21 02:00"]),
        ("0 0 2 1 JUL ?", ["07-01 02:00"]),
        ("0 5/20 * * * *", ["01-01 00:05", "01-01 00:25", "01-01 00:45"]),
        ("0 0 2 * * mon-fri", ["01-01 02:00", "01-02 02:00", "01-05 02:00"]),
        ("0 0 1-5/2 * * *", ["01-01 01:00", "01-01 03:00", "01-01 05:00"]),
        # With a day of month and a day of week, either will do: the 2nd, or a Sunday.
        ("0 0 0 2 * 0", ["01-02 00:00", "01-04 00:00", "01-11 00:00"]),
    ],
)
def test_the_times_are_those_of_kfps_scheduler(cron: str, times: list[str]) -> None:
    check_cron(cron)
    found = next_times(cron, UTC, NEW_YEAR)
    assert [f"{time:%m-%d %H:%M}" for time in found][: len(times)] == times


def test_times_are_told_in_the_zone_also_over_its_change() -> None:
    found = next_times("0 30 12 * * *", ZoneInfo("Europe/Berlin"), datetime(2026, 3, 28, 0, tzinfo=timezone.utc))
    assert [time.isoformat() for time in found] == [
        "2026-03-28T12:30:00+01:00",
        "2026-03-29T12:30:00+02:00",
        "2026-03-30T12:30:00+02:00",
    ]


def test_there_are_no_times_after_the_end() -> None:
    assert len(next_times("0 0 2 * * *", UTC, NEW_YEAR, until=NEW_YEAR + timedelta(days=2))) == 2
    assert next_times("0 0 2 * * *", UTC, NEW_YEAR, until=NEW_YEAR) == []


def test_the_last_time_before_a_moment() -> None:
    berlin, day = ZoneInfo("Europe/Berlin"), timedelta(days=1)
    found = last_time("0 0 2 * * *", berlin, NEW_YEAR - 3 * day, NEW_YEAR)
    assert found == datetime(2025, 12, 31, 1, tzinfo=timezone.utc)
    assert last_time("0 0 2 * * *", UTC, NEW_YEAR - timedelta(hours=1), NEW_YEAR) is None
    assert last_time("0 0 2 1 6 *", UTC, NEW_YEAR - day, NEW_YEAR) is None
