"""What is odd about a file of events is told with its name."""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from components.artifacts import adopt
from tests.preprocess import running

HEADER = "user,item,timestamp\n"


def day(number: int, swapped: bool = False) -> list[tuple[str, str, int]]:
    """Events of half of 60 users and 30 items, which change from day to day."""
    rows = [(f"u{(place * 7 + number) % 60}", f"i{(place * 3 + number) % 30}") for place in range(90)]
    start = 1_700_000_000 + 86_400 * number
    return [(*(pair[::-1] if swapped else pair), start + place) for place, pair in enumerate(rows)]


def text(rows: Iterable[tuple[object, ...]]) -> str:
    return HEADER + "".join(f"{','.join(map(str, row))}\n" for row in rows)


def said(tmp_path: Path, files: dict[str, str | bytes], capsys: pytest.CaptureFixture[str]) -> str:
    """The output of preprocessing four days, with further files."""
    raw = tmp_path / "raw"
    raw.mkdir()
    for name, content in {**{f"day{number}.csv": text(day(number)) for number in range(4)}, **files}.items():
        (raw / name).write_bytes(content.encode() if isinstance(content, str) else content)
    adopt(raw)
    running.preprocess(raw, tmp_path / "parquet", dataset="events", split="last_item", shortest_sequence_for_user=3)
    return capsys.readouterr().out


def test_nothing_is_said_of_days_as_they_should_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(tmp_path, {}, capsys)
    assert not any(word in out for word in ("swapped", "after today", "before 1985", "no rows"))


def test_files_without_rows_are_skipped_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(tmp_path, {"day4.csv": b"", "day5.csv.gz": gzip.compress(b""), "day6.csv": HEADER}, capsys)
    assert "3 of 7 files have no rows: day4.csv, day5.csv.gz, day6.csv" in out


def test_a_day_with_swapped_columns_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(tmp_path, {"day4.csv": text(day(4, swapped=True))}, capsys)
    assert "day4.csv: none of its users is a user in the other files, and 100% are items there" in out
    assert out.count("swapped") == 1


def test_times_that_no_event_has_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd = [("u1", "i1", 4_102_444_800), ("u2", "i2", int(time.time()) + 3 * 86_400), ("u3", "i3", 0)]
    out = said(tmp_path, {"day4.csv": text([*day(4), *odd])}, capsys)
    assert "day4.csv: 2 of 93 events are after today, up to 2100-01-01" in out
    assert "day4.csv: 1 of 93 events are before 1985" in out
