"""Ctrl-C at a terminal: the first one during a training offers to keep its best epoch, the next one ends the run."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from components.errors import KfrecError
from components.train.loop.stopping import request_stop
from pipelines.runs.earlier import checkpoints_in_use
from pipelines.runs.record import RunRecord

# A step is in a process group of its own, so that Ctrl-C reaches this process alone, which ends the steps.
OWN_GROUP = (sys.executable, "-c", "import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])")


@contextmanager
def offering_to_stop(record: RunRecord, is_training: Callable[[], bool]) -> Iterator[None]:
    """Offers to end the training and keep its best epoch at the first Ctrl-C; without a terminal it ends the run."""
    if threading.current_thread() is not threading.main_thread() or not sys.stdin.isatty():
        yield
        return
    end: Any = signal.getsignal(signal.SIGINT)

    def offer(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, end)
        if not is_training():
            end(number, frame)
            return
        print(
            "\npress Enter to end the training now and go on with its best epoch, or Ctrl-C to end the run, which "
            "--resume continues; without either the training goes on",
            file=sys.stderr,
            flush=True,
        )
        threading.Thread(target=_accept, args=(record,), daemon=True).start()

    signal.signal(signal.SIGINT, offer)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, end)


def _accept(record: RunRecord) -> None:
    """Waits for Enter. No lock of Python's is held meanwhile, which this process might need at its end."""
    try:
        if os.read(sys.stdin.fileno(), 1):
            request_stop(str(checkpoints_in_use(record)))
    except (KfrecError, OSError) as error:
        print(error, file=sys.stderr, flush=True)
