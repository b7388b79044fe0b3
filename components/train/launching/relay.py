"""Relays the workers' output: the first one's progress and messages to the user, everything to the log file."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import IO, Any

from tqdm import tqdm

from components.crash import describe_traceback
from components.errors import KfrecError, Unreachable
from components.progress import Bar, emit, parse_event
from components.training_log import epoch_point

# "[1,0]<stdout>:" of mpirun --tag-output.
_TAG = re.compile(r"\[\d+,(\d+)\]<(stdout|stderr)>:")
# mpirun's message for a rank killed by SIGKILL.
_KILLED = re.compile(r"exited on signal 9\b")
# mpirun's word on a rank that a signal ended.
_ENDED = re.compile(r"process rank (\d+) with PID \d+ on node (\S+) (exited on signal .*?)\.?$")
_LAST_LINES = 200

# Takes a step, or the number of an epoch, and its metrics.
Measured = Callable[[int, Mapping[str, float]], None]


def ignored(step: int, metrics: Mapping[str, float]) -> None:
    """Takes measurements that nobody looks at."""


_LAUNCHER = -1


def is_event(line: str) -> bool:
    """Whether a launcher's line is for a program: progress, an epoch, an error."""
    return parse_event(_TAG.sub("", line)) is not None


class Relay:
    """Demultiplexes the lines of all workers.

    Args:
        log: receives every line that is not an event.
        measured: receives the metrics of steps and epochs.
        tagged: whether mpirun prefixes each line of a rank with its number.
        several: whether there are several ranks, so that the log says whose each line is.

    Attributes:
        error: the first error a worker reported, or None.
        crash: the first uncaught exception a worker reported, in one line; empty if there was none.
        was_killed: whether the launcher reported that a rank was killed.
    """

    def __init__(self, log: IO[str], measured: Measured = ignored, tagged: bool = False, several: bool = False) -> None:
        self.error: KfrecError | None = None
        self.crash = ""
        self.ended = ""
        self.was_killed = False
        self._measured = measured
        self._log, self._tagged, self._several = log, tagged, several or tagged
        self._bar: Bar | None = None
        self._last: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=_LAST_LINES))

    def line(self, process: int, stream: str, text: str) -> None:
        """Takes one line of a process's "stdout" or "stderr"; the process is a rank, or mpirun."""
        rank = _LAUNCHER if self._tagged else process
        if tag := _TAG.search(text):
            rank, stream = int(tag[1]), tag[2]
            # mpirun repeats the tag within a line that was written in several calls.
            text = _TAG.sub("", text)
        event = parse_event(text)
        if event is not None:
            self._event(event)
            return
        self._log.write(text + "\n" if not self._several else f"[{'launcher' if rank < 0 else rank}] {text}\n")
        self._last[rank].append(text)
        self.was_killed = self.was_killed or (rank == _LAUNCHER and bool(_KILLED.search(text)))
        if rank == _LAUNCHER and (ended := _ENDED.search(text)):
            self.ended = f"rank {ended[1]} on {ended[2].partition('.')[0]} {ended[3]}"
        if rank == 0 and stream == "stdout" and text.strip():
            tqdm.write(text.strip())

    def reset(self) -> None:
        """Forgets what ended an earlier launcher."""
        self.error, self.crash, self.ended, self.was_killed = None, "", "", False

    def last_exception(self) -> str:
        """The uncaught exception of the first rank with one, in one line; empty if there is none."""
        exceptions = ((rank, describe_traceback(lines)) for rank, lines in self._by_rank() if rank != _LAUNCHER)
        return self.crash or next((f"rank {rank}: {exception}" for rank, exception in exceptions if exception), "")

    def last_line(self) -> str:
        """The last line of the last rank with output, else of the launcher; empty if there is none."""
        every = [line.strip() for _, lines in self._by_rank() for line in lines if line.strip()]
        return every[-1] if every else ""

    def _by_rank(self) -> list[tuple[int, list[str]]]:
        """The last lines of the launcher, and then of each rank."""
        return [(rank, list(lines)) for rank, lines in sorted(self._last.items())]

    def _event(self, event: dict[str, Any]) -> None:
        if event["kfrec"] == "error" and event.get("crashed"):
            self.crash = self.crash or f"rank {event['rank']}: {event['message']}"
        elif event["kfrec"] == "error":
            kind = Unreachable if event.get("unreachable") else KfrecError
            self.error = self.error or kind(event["message"])
        if event["kfrec"] == "warning":
            emit("warning", step=event["step"], about=event["about"], message=event["message"])
        if event["kfrec"] == "measured":
            self._measured(event["step"], event["metrics"])
        if event["kfrec"] == "epoch":
            self._measured(*epoch_point(event["epoch"], event["metrics"]))
            emit("epoch", epoch=event["epoch"], metrics=event["metrics"])
        if event["kfrec"] == "progress":
            if self._bar is None or self._bar.label != event["label"]:
                self._close_bar()
                self._bar = Bar(event["label"], event["total"], event["unit"], event["done"])
            self._bar.advance(event["done"] - self._bar.done)

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *error: object) -> None:
        self._close_bar()
