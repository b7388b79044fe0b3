"""Cron lines as KFP's scheduler reads them.

KFP parses with robfig/cron 1.2 (https://pkg.go.dev/github.com/robfig/cron@v1.2.0): second, minute, hour, day of month,
month, day of week. It differs from most tools: five fields are accepted and start at the seconds, so "0 2 * * *" runs
every hour; Sunday is 0, never 7; ranges do not wrap around; ``CRON_TZ=``, L, W and # are not supported. This module
validates each field; croniter computes the times from the normalised numbers.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from components.errors import KfrecError

_MONTHS = {"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6,
           "jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12}  # fmt: skip
_DAYS = {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("second", 0, 59, {}),
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 6, _DAYS),
)
_STAR = ("*", "?")


def check_cron(cron: str) -> None:
    """Rejects lines that KFP's scheduler rejects or misreads, or that run more than once a minute.

    Raises:
        KfrecError: with the reason and a correction.
    """
    plain = _plain(cron)
    first, second = _times(plain, cron, datetime(2025, 1, 1), 2)
    if second - first < timedelta(minutes=1):
        raise KfrecError(f"cron {cron!r} runs more than once a minute; begin it with a second, such as 0")


def next_times(
    cron: str, zone: ZoneInfo, after: datetime, until: datetime | None = None, count: int = 3
) -> list[datetime]:
    """The next ``count`` times after ``after``, up to ``until``, in ``zone``; fewer if ``until`` comes first."""
    times = _times(_plain(cron), cron, after.astimezone(zone), count)
    return [time for time in times if until is None or time <= until]


def last_time(cron: str, zone: ZoneInfo, after: datetime, until: datetime) -> datetime | None:
    """The last time after ``after``, up to ``until``, in ``zone``; None if there is none."""
    from croniter import CroniterBadDateError, croniter

    try:
        last = croniter(_plain(cron), until.astimezone(zone), second_at_beginning=True).get_prev(datetime)
    except CroniterBadDateError:
        return None
    return last if last > after else None


def _plain(cron: str) -> str:
    """The normalised line: only numbers, which every cron parser accepts."""
    if cron.upper().startswith(("CRON_TZ=", "TZ=")):
        raise KfrecError(
            f"cron {cron!r}: KFP's scheduler has one time zone for all schedules; remove {cron.split()[0]}"
        )
    fields = cron.split()
    if len(fields) == len(_FIELDS) - 1 and not cron.startswith("@"):
        raise KfrecError(f"cron {cron!r} has 5 fields, KFP's has 6, seconds first; write '0 {cron}' for the same times")
    if len(fields) != len(_FIELDS):
        raise KfrecError(f"cron {cron!r} is not valid; write second, minute, hour, day of month, month and day of week")
    if not any(field in _STAR for field in (fields[3], fields[5])) and any(
        f[0] in _STAR for f in (fields[3], fields[5])
    ):
        # Whether */2 counts as "any day" differs between versions of the scheduler's parser.
        raise KfrecError(f"cron {cron!r}: with both a day of month and a day of week, write */n as a list of days")
    return " ".join(
        "*" if text in _STAR else ",".join(map(str, sorted(_values(cron, text, *field))))
        for text, field in zip(fields, _FIELDS, strict=True)
    )


def _values(cron: str, text: str, name: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """The numbers that a field matches."""
    wrong = KfrecError(f"cron {cron!r}: {name} {text!r} is not valid; KFP takes {low} to {high}, a-b, */n and lists")

    def number(word: str) -> int:
        if word.lower() in names:
            return names[word.lower()]
        if not word.isascii() or not word.isdigit():
            raise wrong
        return int(word)

    values: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        begin, dash, end = span.partition("-")
        if begin in _STAR and not dash:
            first, last = low, high
        else:
            first = number(begin)
            last = number(end) if dash else (high if slash else first)
        stride = number(step) if slash else 1
        if not low <= first <= last <= high or stride < 1:
            raise wrong
        values.update(range(first, last + 1, stride))
    return values


def _times(plain: str, cron: str, after: datetime, count: int) -> list[datetime]:
    from croniter import CroniterBadDateError, croniter

    times = croniter(plain, after, second_at_beginning=True)
    try:
        return [times.get_next(datetime) for _ in range(count)]
    except CroniterBadDateError:
        raise KfrecError(f"cron {cron!r} never matches; correct the day or the month") from None
