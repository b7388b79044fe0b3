"""Progress of a step: a bar on a terminal, lines in a log, or events for ``kfrec run``, which shows all steps.

A step emits events, one JSON object per line on stdout, only if KFREC_EVENTS is set. The events:

    {"kfrec": "started", "step": ..., "run_id": the pipeline run}
    {"kfrec": "progress", "label": ..., "unit": ..., "done": n, "total": n or null}
    {"kfrec": "measured", "step": global step, "metrics": {name: value}}, of a training
    {"kfrec": "epoch", "epoch": finished epochs, "metrics": {name: value}}, of a training
    {"kfrec": "finished", "step": ..., "seconds": s, "rows": n, "counts": {...}, "outputs": {name: path}}
    {"kfrec": "warning", "step": ..., "about": a few words, "message": one line}
    {"kfrec": "error", "step": ..., "message": one line, "unreachable": true where a service did not answer,
     "crashed": true for an uncaught exception, whose traceback is in the process's output}
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tqdm import tqdm

EVENTS = "KFREC_EVENTS"
_MARK = '{"kfrec": '
_EVENT_SECONDS = 0.25
_LOG_SECONDS = 10.0
_FORMAT = "{desc}: {percentage:3.0f}% |{bar:24}| {n_fmt}/{total_fmt}{unit} [{rate_fmt}, {remaining} left]"
_FORMAT_UNKNOWN = "{desc}: {n_fmt}{unit} [{rate_fmt}, {elapsed} so far]"


def duration(seconds: float) -> str:
    """A human-readable duration: "4.2 s", "3 min 07 s", "2 h 05 min"."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{int(seconds) // 60} min {int(seconds) % 60:02d} s"
    return f"{int(seconds) // 3600} h {int(seconds) // 60 % 60:02d} min"


def emitting() -> bool:
    """Whether the parent process reads events."""
    return bool(os.environ.get(EVENTS))


def emit(kind: str, **fields: Any) -> None:
    """Writes one event, if the parent process reads events."""
    if emitting():
        sys.stdout.write(json.dumps({"kfrec": kind, **fields}) + "\n")
        sys.stdout.flush()


def warn(step: str, about: str, message: str) -> None:
    """Tells the user of something that does not stop a step: as an event, and as a line of the step's output.

    Args:
        about: a few words for lists of runs.
    """
    emit("warning", step=step, about=about, message=message)
    print(message, flush=True)


def parse_event(line: str) -> dict[str, Any] | None:
    """The event in a line of a step's output, or None for ordinary output."""
    start = line.find(_MARK)
    if start < 0:
        return None
    try:
        return json.loads(line[start:])
    except ValueError:
        return None


class Shown(Protocol):
    """Displays the progress of a job.

    Attributes:
        n: units done.
    """

    n: float
    desc: str

    def update(self, n: float) -> Any: ...

    def close(self) -> Any: ...


class _Terminal(tqdm):
    """A redrawn bar. Rate and remaining time exclude the first update, which includes a job's start-up."""

    _steady = False
    _began = _earlier = 0.0

    def update(self, n: float | None = 1) -> bool | None:
        if self._steady or not n:
            return super().update(n)
        self._steady, self._began, self._earlier = True, self.start_t, self.initial
        self.n += n
        self.initial = self.last_print_n = self.n
        self.start_t = self.last_print_t = time.time()
        self.refresh()
        return True

    def close(self) -> None:
        if self._steady and self.n == self.initial:  # a job of one update has only the rate that includes its start-up
            self.initial, self.start_t = self._earlier, self._began
        super().close()


class _Lines:
    """A line every ten seconds and one at the end, for logs and redirected output."""

    def __init__(self, initial: float = 0.0, **options: Any) -> None:
        self.n, self.desc = initial, options.pop("desc")
        self._initial = initial
        self._options = options
        self._began = self._logged = time.monotonic()
        self._steady_from: tuple[float, float] | None = None
        self._shown = -1.0

    def update(self, n: float) -> None:
        self.n += n
        now = time.monotonic()
        if n and self._steady_from is None:
            self._steady_from = now, self.n
        if self._steady_from and now - self._logged >= _LOG_SECONDS:
            self._write_rate(*self._steady_from)

    def close(self) -> None:
        if self.n in (self._initial, self._shown):  # without any unit there is no rate either
            return
        # A job of one update has only the rate that includes its start-up.
        first = self._steady_from
        self._write_rate(*(first if first and first[1] < self.n else (self._began, self._initial)))

    def _write_rate(self, began: float, initial: float) -> None:
        """Prints a line with the rate since ``began``, at which ``initial`` units were done."""
        self._logged, self._shown = time.monotonic(), self.n
        elapsed = self._logged - began
        line = tqdm.format_meter(self.n, elapsed=elapsed, initial=initial, prefix=self.desc, **self._options)
        print(line.rstrip(), file=sys.stderr, flush=True)


def shown(label: str, total: int | None, unit: str, initial: int = 0) -> Shown:
    """A bar on a terminal, lines elsewhere.

    Args:
        total: units of work, or None if unknown.
        unit: name of the units, plural.
        initial: units done before, which do not count for the rate.
    """
    options: dict[str, Any] = dict(
        desc=label,
        total=total,
        initial=initial,
        unit=f" {unit}",
        unit_scale=True,
        bar_format=_FORMAT if total else _FORMAT_UNKNOWN,
    )
    return _Terminal(**options, mininterval=0.2, file=sys.stderr) if sys.stderr.isatty() else _Lines(**options)


class Bar:
    """Progress of one long job; a job of no units shows none."""

    def __init__(self, label: str, total: int | None, unit: str, initial: int = 0) -> None:
        self.label, self.total, self.unit, self.done = label, total, unit, initial
        self._last, self._lock = 0.0, threading.Lock()
        self._shown = None if emitting() or total == 0 else shown(label, total, unit, initial)
        self._emit(force=True)

    def advance(self, count: int = 1) -> None:
        """``count`` more units are done. Thread-safe."""
        with self._lock:
            self.done += count
            if self._shown is not None:
                self._shown.update(count)
            self._emit()

    def close(self) -> None:
        if self._shown is not None:
            self._shown.close()
        self._emit(force=True)

    def _emit(self, force: bool = False) -> None:
        now = time.monotonic()
        if self.total != 0 and (force or now - self._last >= _EVENT_SECONDS):
            self._last = now
            emit("progress", label=self.label, unit=self.unit, done=self.done, total=self.total)


@contextmanager
def progress(label: str, total: int | None = None, unit: str = "rows", initial: int = 0) -> Iterator[Bar]:
    """Shows a bar while the block runs.

    Args:
        label: of the job, such as "reading reviews".
        total: units of work, or None if unknown.
        unit: name of the units, plural.
        initial: units done before, which do not count for the rate.
    """
    bar = Bar(label, total, unit, initial)
    try:
        yield bar
    finally:
        bar.close()
