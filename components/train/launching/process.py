"""A child process that stops with its parent, with its output read line by line."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from components.lifetime import stopping_in_order

_GRACE_SECONDS = 15


def run_process(command: Sequence[str], environment: Mapping[str, str], line: Callable[[str, str], None]) -> int:
    """Runs a command to its end and passes on every output line.

    When this process is asked to stop (SIGTERM, Ctrl-C) or ``line`` raises, the child and its children are stopped
    first.

    Args:
        command: program and arguments.
        environment: the child's complete environment.
        line: called with "stdout" or "stderr" and a line without its newline, by one thread at a time.

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
        start_new_session=True,  # only this process forwards signals to the child, in a defined order
    )
    assert process.stdout is not None and process.stderr is not None
    readers = [
        threading.Thread(target=forward, args=(name, stream), daemon=True)
        for name, stream in (("stdout", process.stdout), ("stderr", process.stderr))
    ]
    with stopping_in_order():
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
    """Ends the remaining processes of the child's process group."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
