"""A child process that never outlives the one who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO

_GRACE_SECONDS = 15


def run_process(command: Sequence[str], environment: Mapping[str, str], line: Callable[[str, str], None]) -> int:
    """Runs a command to its end, handing over every line it writes.

    When this process is asked to stop (SIGTERM, Ctrl-C) or ``line`` raises, the child and its children are stopped
    first.

    Args:
        command: program and arguments.
        environment: the child's whole environment.
        line: called with "stdout" or "stderr" and a line without its end, by one thread at a time.

    Returns:
        The exit status.
    """
    lock = threading.Lock()

    def forward(name: str, stream: IO[str]) -> None:
        for text in stream:
            with lock:
                line(name, text.rstrip("\n"))

    process = subprocess.Popen(
        list(command),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # signals reach the child through us alone, in an order we know
    )
    assert process.stdout is not None and process.stderr is not None
    readers = [
        threading.Thread(target=forward, args=(name, stream), daemon=True)
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
    ]
    with sigterm_exits():
        try:
            for reader in readers:
                reader.start()
            status = process.wait()
            for reader in readers:
                reader.join()
            return status
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends what still runs of the process and its group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


@contextmanager
def sigterm_exits() -> Iterator[None]:
    """Makes SIGTERM end this process through its ``finally`` blocks; possible in the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> None:
        sys.exit(128 + number)

    earlier = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, earlier)
