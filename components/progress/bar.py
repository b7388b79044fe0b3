"""A bar with rate and remaining time: on a terminal, as plain lines in a log, or as events."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from components.progress.events import emit, emitting

_EVENT_SECONDS = 0.25
_LOG_SECONDS = 10.0
_FORMAT = "{desc}: {percentage:3.0f}% |{bar:24}| {n_fmt}/{total_fmt}{unit} [{rate_fmt}, {remaining} left]"
_FORMAT_UNKNOWN = "{desc}: {n_fmt}{unit} [{rate_fmt}, {elapsed} so far]"


def bar_options(label: str, total: int | None, unit: str) -> dict[str, Any]:
    """How every bar looks: lively on a terminal, a line now and then in a log."""
    return dict(
        desc=label,
        total=total,
        unit=f" {unit}",
        unit_scale=True,
        mininterval=0.2 if sys.stderr.isatty() else _LOG_SECONDS,
        bar_format=_FORMAT if total else _FORMAT_UNKNOWN,
        file=sys.stderr,
    )


class Bar:
    """How far one long job has come."""

    def __init__(self, label: str, total: int | None, unit: str) -> None:
        self.label, self.total, self.unit, self.done = label, total, unit, 0
        self._last = 0.0
        self._tqdm: tqdm | None = None
        if not emitting():
            self._tqdm = tqdm(**bar_options(label, total, unit))
        self._show(force=True)

    def advance(self, count: int = 1) -> None:
        """``count`` more units are done."""
        self.done += count
        if self._tqdm is not None:
            self._tqdm.update(count)
        self._show()

    def close(self) -> None:
        if self._tqdm is not None:
            self._tqdm.close()
        self._show(force=True)

    def _show(self, force: bool = False) -> None:
        now = time.monotonic()
        if force or now - self._last >= _EVENT_SECONDS:
            self._last = now
            emit("progress", label=self.label, unit=self.unit, done=self.done, total=self.total)


@contextmanager
def progress(label: str, total: int | None = None, unit: str = "rows") -> Iterator[Bar]:
    """Shows a bar while the block runs.

    Args:
        label: what is going on, such as "reading reviews".
        total: units of work, or None where unknown.
        unit: what is counted, in the plural.
    """
    bar = Bar(label, total, unit)
    try:
        yield bar
    finally:
        bar.close()
