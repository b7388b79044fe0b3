"""Writes served rows from a thread of its own, so that answers wait neither for the store nor for the encoding.

What is not yet in a file is in memory: at most LARGEST rows, and for at most INTERVAL seconds if the store is there.
A process that is killed loses these; one that is stopped writes them first.
"""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from threading import Condition, Thread
from typing import Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from components.errors import KfrecError
from components.served_rows.schema import file_of
from components.storage import Store, Unavailable, is_uri, open_store

# Rows in memory, of which a thousand take about half a megabyte.
LARGEST = 100_000
# Seconds between files, and the longest wait before another try of a store that is away.
INTERVAL, _LONGEST_WAIT = 30.0, 60.0
# Seconds in which a stopped process writes its last rows.
_LAST = 8.0
# Longest silence of a store, in seconds.
_TIMEOUT = 10.0


class Counting(Protocol):
    """Takes counts by the names of the metrics; see ``components.serving.counters.Counters``."""

    def add(self, name: str, count: float = 1) -> None:
        """Adds to a count."""


class Entry(Protocol):
    """Served rows that become a table on the log's thread; see ``components.served_rows.entries``."""

    @property
    def time(self) -> datetime:
        """When they were answered."""

    @property
    def rows(self) -> int:
        """The number of its rows."""

    def table(self) -> pa.Table:
        """The rows, of SCHEMA."""


LOGGED, DROPPED, FAILURES = "kfrec_log_rows_total", "kfrec_log_dropped_rows_total", "kfrec_log_failures_total"


def opened(location: str) -> Store:
    """The store of served rows; a folder is made.

    Raises:
        KfrecError: it cannot be one, or a folder cannot be written to.
    """
    if not location.strip():
        raise KfrecError("--log is empty; name a folder or URI (is a shell variable unset?)")
    if not is_uri(location):
        folder = Path(location.removeprefix("file://"))
        try:
            folder.mkdir(parents=True, exist_ok=True)
            is_writable = os.access(folder, os.W_OK | os.X_OK)
        except OSError as error:
            raise KfrecError(f"--log {location}: cannot be made ({error.strerror}); name another folder") from None
        if not is_writable:
            raise KfrecError(f"--log {location}: cannot be written to; name another folder, or change its owner")
    return open_store(location, _TIMEOUT)


class ServedLog:
    """A queue of served rows with the thread that writes them.

    Rows of an hour become a file; a file that cannot be written is tried again with growing waits, while further rows
    wait in memory. Rows beyond ``largest`` are dropped and counted.

    Args:
        store: of ``opened``.
        counts: takes LOGGED, DROPPED and FAILURES.
        largest: rows in memory.
        interval: seconds between files.
    """

    def __init__(self, store: Store, counts: Counting, largest: int = LARGEST, interval: float = INTERVAL) -> None:
        self._store, self._counts, self._largest, self._interval = store, counts, largest, interval
        self._writer, self._sequence = secrets.token_hex(4), 0
        self._queue: deque[Entry] = deque()
        self._held = 0
        self._changed, self._is_closing = Condition(), False
        self._is_away = False
        self._thread = Thread(target=self._run, name="served rows", daemon=True)
        self._thread.start()

    def add(self, entry: Entry) -> None:
        """Adds rows, or drops them if memory is full; never waits for the store."""
        with self._changed:
            if self._held + entry.rows > self._largest:
                self._counts.add(DROPPED, entry.rows)
                return
            self._held += entry.rows
            self._queue.append(entry)
            self._changed.notify()

    def close(self, seconds: float = _LAST) -> None:
        """Writes what is in memory; gives up after ``seconds``, and says how many rows were lost."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(seconds)
        with self._changed:
            if self._held:
                self._counts.add(DROPPED, self._held)
                _tell(f"{self._held:,} served rows are lost: {self._store.uri} took none of them before the end")

    def _run(self) -> None:
        hours: dict[datetime, list[pa.Table]] = {}
        due, failures = time.monotonic() + self._interval, 0
        while True:
            with self._changed:
                if not self._queue and not self._is_closing:
                    self._changed.wait(max(0.0, due - time.monotonic()))
                entries, is_last = list(self._queue), self._is_closing
                is_filling = 2 * self._held >= self._largest
                self._queue.clear()
            for entry in entries:
                if (table := self._encoded(entry)) is not None:
                    hour = entry.time.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
                    hours.setdefault(hour, []).append(table)
                time.sleep(0)  # threads that answer go first
            if is_last or time.monotonic() >= due or (is_filling and not failures):
                failures = 0 if self._write(hours) else failures + 1
                if is_last and not failures:
                    return
                wait = min(_LONGEST_WAIT, 2.0 ** min(failures, 10) / 2) if failures else self._interval
                due = time.monotonic() + wait
                if is_last:
                    time.sleep(min(wait, 1.0))

    def _encoded(self, entry: Entry) -> pa.Table | None:
        try:
            return entry.table()
        except Exception as error:  # the answer has been given all the same
            self._counts.add(DROPPED, entry.rows)
            self._release(entry.rows)
            _tell(f"{entry.rows:,} served rows are not logged: {error!r}")
            return None

    def _write(self, hours: dict[datetime, list[pa.Table]]) -> bool:
        """Writes a file for each hour; those that were written leave ``hours``.

        Returns:
            Whether all were.
        """
        for hour in sorted(hours):
            rows = sum(map(len, hours[hour]))
            try:
                self._put(file_of(hour, self._writer, self._sequence), pa.concat_tables(hours[hour]))
            except (KfrecError, Unavailable, OSError) as error:
                self._counts.add(FAILURES)
                if not self._is_away:
                    _tell(f"served rows wait in memory, at most {self._largest:,} of them: {error}")
                self._is_away = True
                return False
            if self._is_away:
                _tell(f"served rows are written again to {self._store.uri}")
            self._is_away = False
            self._sequence += 1
            del hours[hour]
            self._counts.add(LOGGED, rows)
            self._release(rows)
        return True

    def _release(self, rows: int) -> None:
        with self._changed:
            self._held -= rows

    def _put(self, name: str, table: pa.Table) -> None:
        with tempfile.NamedTemporaryFile(prefix="kfrec-served-") as file:
            pq.write_table(table, file.name, compression="zstd")
            self._store.write(name, Path(file.name))


def _tell(line: str) -> None:
    print(f"log: {line}", file=sys.stderr, flush=True)
