"""Relays the workers' output: the first one's progress and messages to the user, everything to the log file."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from typing import IO, Any

from tqdm import tqdm

from components.errors import KfrecError, Unreachable
from components.progress import Bar, emit
from components.progress.events import parse

# "[1,0]<stdout>:" of mpirun --tag-output, "[0]<stdout>:" of horovodrun.
_TAG = re.compile(r"\[(?:\d+,)?(\d+)\]<(stdout|stderr)>:")
# Messages of horovodrun and mpirun for a rank killed by SIGKILL.
_KILLED = re.compile(r"Exit code: (?:-9|137)\b|exited on signal 9\b")
_KEPT_LINES = 200
_LAUNCHER = -1


class Relay:
    """Demultiplexes the lines of all workers.

    Args:
        log: receives every line that is not an event.
        tagged: whether a launcher prefixes each line with the rank; otherwise there is one worker.

    Attributes:
        error: the first error a worker reported, or None.
        was_killed: whether the launcher reported that a rank was killed.
    """

    def __init__(self, log: IO[str], tagged: bool) -> None:
        self.error: KfrecError | None = None
        self.was_killed = False
        self._log, self._tagged = log, tagged
        self._bar: Bar | None = None
        self._last: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=_KEPT_LINES))

    def line(self, stream: str, text: str) -> None:
        """Takes one line of "stdout" or "stderr"."""
        rank = _LAUNCHER if self._tagged else 0
        if tag := _TAG.search(text):
            rank, stream = int(tag[1]), tag[2]
            # mpirun repeats the tag within a line that was written in several calls.
            text = _TAG.sub("", text)
        event = parse(text)
        if event is not None:
            self._event(event)
            return
        self._log.write(text + "\n" if not self._tagged else f"[{'launcher' if rank < 0 else rank}] {text}\n")
        self._last[rank].append(text)
        self.was_killed = self.was_killed or (rank == _LAUNCHER and bool(_KILLED.search(text)))
        if rank == 0 and stream == "stdout" and text.strip():
            tqdm.write(text.strip())

    def last_words(self) -> list[str]:
        """The last lines of the first rank with a traceback, else of rank 0, else of the launcher."""
        failed = [lines for rank, lines in sorted(self._last.items()) if any("Traceback" in line for line in lines)]
        return list(next(iter(failed), self._last[0] or self._last[_LAUNCHER]))

    def _event(self, event: dict[str, Any]) -> None:
        if event["kfrec"] == "error":
            kind = Unreachable if event.get("unreachable") else KfrecError
            self.error = self.error or kind(event["message"])
        if event["kfrec"] == "epoch":
            emit("epoch", epoch=event["epoch"], metrics=event["metrics"])
        if event["kfrec"] == "progress":
            if self._bar is None or self._bar.label != event["label"]:
                self._close_bar()
                self._bar = Bar(event["label"], event["total"], event["unit"])
            self._bar.advance(event["done"] - self._bar.done)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *error: object) -> None:
        self._close_bar()
