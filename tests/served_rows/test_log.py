"""The log of served rows: a store that is full, slow, away or read-only, a clock that jumps, and several writers."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from components.errors import KfrecError
from components.served_rows.entries import ListedItems, Origin, ScoredRows
from components.served_rows.log import DROPPED, FAILURES, LOGGED, ServedLog, opened
from components.served_rows.table import days_of, read_served
from components.storage import Unavailable
from components.storage.folder import FolderStore
from tests.fakes.object_stores import Place
from tests.waiting import LONGEST, wait_for

TEN = datetime(2026, 11, 27, 10, 5, tzinfo=UTC)


class Counts(Counter[str]):
    """Counts by name."""

    def add(self, name: str, count: float = 1) -> None:
        self[name] += int(count)


def scored(number: int, *, rows: int = 1, time: datetime = TEN) -> ScoredRows:
    origin = Origin(f"r{number}", time, "shop-ctr", "3", "champion")
    columns = {"user": pa.array([f"U{number}"] * rows), "n": pa.array([number] * rows)}
    return ScoredRows(origin, columns, np.full(rows, 0.5, np.float32), "user")


def read(folder: object) -> list[dict[str, Any]]:
    return [row for table in read_served(str(folder)) for row in table.to_pylist()]


class Awkward(FolderStore):
    """A folder whose writes ask ``answer`` first."""

    def __init__(self, folder: Path, answer: Callable[[], None]) -> None:
        super().__init__(str(folder))
        self.answer = answer

    def write(self, name: str, source: Path) -> None:
        self.answer()
        super().write(name, source)


def test_rows_and_lists_have_all_their_columns(tmp_path: Path) -> None:
    log = ServedLog(opened(str(tmp_path)), counts := Counts())
    columns = {"user": pa.array(["U1", None]), "history": pa.array([["B1"], []]), "price": pa.array([1.5, None])}
    origin = Origin("r1", TEN, "shop-ctr", "3", "champion")
    log.add(ScoredRows(origin, columns, pa.chunked_array([[0.25, 0.75]]), "user", "item"))
    lists = pa.table({"user": ["U1", "U2"], "rank": pa.array([1, 1], pa.int32()), "item": ["B2", "B3"],
                      "score": [0.5, 0.25], "flag": ["", ""]})  # fmt: skip
    log.add(ListedItems(origin, lists, np.array([0, 2], np.int32)))
    log.close()
    shared = {"request_id": "r1", "time": TEN, "model": "shop-ctr", "version": "3", "variant": "champion"}
    none = dict.fromkeys(("columns", "probability", "user", "rank", "item", "likelihood"))
    assert read(tmp_path) == [
        shared | none | {"row": 0, "columns": '{"user": "U1", "history": ["B1"], "price": 1.5}', "probability": 0.25,
                         "user": "U1"},
        shared | none | {"row": 1, "columns": '{"user": null, "history": [], "price": null}', "probability": 0.75},
        shared | none | {"row": 0, "user": "U1", "rank": 1, "item": "B2", "likelihood": 0.5},
        shared | none | {"row": 2, "user": "U2", "rank": 1, "item": "B3", "likelihood": 0.25},
    ]  # fmt: skip
    assert counts == {LOGGED: 4}


def test_a_clock_that_jumps_gives_rows_to_their_hours(tmp_path: Path) -> None:
    log = ServedLog(opened(str(tmp_path)), Counts())
    for number, time in enumerate((TEN, datetime(2026, 11, 28, 0, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC))):
        log.add(scored(number, time=time))
    log.close()
    assert [day.isoformat() for day in days_of(str(tmp_path))] == ["2025-01-01", "2026-11-27", "2026-11-28"]
    assert [row["request_id"] for row in read(tmp_path)] == ["r2", "r0", "r1"]


def test_several_servers_write_into_one_folder(tmp_path: Path) -> None:
    logs = [ServedLog(opened(str(tmp_path)), Counts(), interval=0.01) for _ in range(3)]
    for number in range(30):
        logs[number % 3].add(scored(number))
    for log in logs:
        log.close()
    assert sorted(row["request_id"] for row in read(tmp_path)) == sorted(f"r{number}" for number in range(30))
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name.startswith(".")]


@pytest.mark.parametrize("error", [Unavailable("away"), KfrecError("read-only"), OSError(28, "No space left")])
def test_rows_wait_for_a_store_that_is_away_and_those_beyond_the_limit_are_counted(
    error: Exception, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_back = Event()

    def answer() -> None:
        if not is_back.is_set():
            raise error

    log = ServedLog(Awkward(tmp_path, answer), counts := Counts(), largest=4, interval=0.01)
    log.add(scored(0, rows=2))
    wait_for(lambda: counts[FAILURES])
    for number in range(1, 4):
        log.add(scored(number))
    assert counts[DROPPED] == 1 and not counts[LOGGED]
    is_back.set()
    wait_for(lambda: counts[LOGGED] == 4)
    log.close()
    assert [row["request_id"] for row in read(tmp_path)] == ["r0", "r0", "r1", "r2"]
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"log: served rows wait in memory, at most 4 of them: {error}",
        f"log: served rows are written again to {tmp_path}",
    ]


def test_a_slow_store_delays_nothing_and_what_it_never_took_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    is_over = Event()

    def answer() -> None:
        is_over.wait(LONGEST)

    log = ServedLog(Awkward(tmp_path, answer), counts := Counts(), 10, 0.01)
    log.add(scored(0))
    for number in range(1, 20):
        log.add(scored(number))  # returns, whatever the store does
    assert counts[DROPPED] == 10
    log.close(0.1)
    assert counts[DROPPED] == 20 and not counts[LOGGED]
    assert capsys.readouterr().err == f"log: 10 served rows are lost: {tmp_path} took none of them before the end\n"
    is_over.set()


KILLED = """
import os, shutil, signal, sys
from tests.served_rows.test_log import Counts, scored
from components.served_rows.log import LOGGED, ServedLog
from components.storage.folder import FolderStore
from tests.waiting import wait_for

class Killed(FolderStore):
    def write(self, name, source):
        if counts[LOGGED]:
            target = self.folder / name
            shutil.copyfile(source, target.with_name(f".{target.name}.partial-7"))
            os.kill(os.getpid(), signal.SIGKILL)
        super().write(name, source)

counts = Counts()
log = ServedLog(Killed(sys.argv[1]), counts, interval=0.01)
log.add(scored(0))
wait_for(lambda: counts[LOGGED])
log.add(scored(1))
signal.pause()
"""


def test_a_killed_process_loses_what_was_in_memory_and_leaves_complete_files(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=root, timeout=LONGEST)
    assert killed.returncode == -signal.SIGKILL
    assert [row["request_id"] for row in read(tmp_path)] == ["r0"]
    assert list(tmp_path.glob("*/.*.partial-7"))


def test_much_traffic_is_written_before_memory_is_full(tmp_path: Path) -> None:
    log = ServedLog(opened(str(tmp_path)), counts := Counts(), largest=100, interval=LONGEST)
    for number in range(60):
        log.add(scored(number))
    wait_for(lambda: counts[LOGGED])
    log.close()
    assert counts == {LOGGED: 60}


def test_rows_that_are_no_table_are_counted_and_the_others_are_written(tmp_path: Path) -> None:
    log = ServedLog(opened(str(tmp_path)), counts := Counts())
    origin = Origin("bad", TEN, "shop-ctr", "3", "")
    log.add(ScoredRows(origin, {"user": pa.array([b"\xff"])}, None, "user"))
    log.add(scored(1))
    log.close()
    assert counts == {LOGGED: 1, DROPPED: 1}


def test_a_prefix_takes_rows(prefix: Place) -> None:
    log = ServedLog(opened(prefix.uri), Counts())
    log.add(scored(1))
    log.close(LONGEST)
    assert [row["user"] for row in read(prefix.uri)] == ["U1"]


@pytest.mark.parametrize(
    ("location", "line"),
    [
        (" ", "--log is empty; name a folder or URI"),
        ("file/below", "--log file/below: cannot be made"),
        ("ftp://host/folder", "ftp://host/folder: cannot read ftp://"),
    ],
)
def test_what_can_never_be_a_log_is_refused(
    location: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(KfrecError, match=line):
        opened(location)
