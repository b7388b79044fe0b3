"""Child processes that stop together and with their parent, with their output read line by line."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from components.lifetime import stopping_in_order

_GRACE_SECONDS = 15


def run_processes(
    command: Sequence[str], environments: Sequence[Mapping[str, str]], line: Callable[[int, str, str], None]
) -> int:
    """Runs a command once in each environment, to the end, and passes on every output line.

    When one fails, the others are stopped. When this process is asked to stop (SIGTERM, Ctrl-C) or ``line`` raises, the
    children and theirs are stopped first.

    Args:
        command: program and arguments.
        environments: complete ones, one a child.
        line: called with the child's number, "stdout" or "stderr" and a line without its newline, by one thread at a
            time.

    Returns:
        The exit status of the first child that failed, or 0.
    """
    lock = threading.Lock()

    def forward(number: int, name: str, stream: IO[str]) -> None:
        for text in stream:
            with lock:
                line(number, name, text.rstrip("\n"))

    children: list[subprocess.Popen[str]] = []
    ended: queue.SimpleQueue[int] = queue.SimpleQueue()
    readers: list[threading.Thread] = []
    with stopping_in_order():
        try:
            for number, environment in enumerate(environments):
                child = _start(command, environment)
                children.append(child)
                for name, stream in (("stdout", child.stdout), ("stderr", child.stderr)):
                    readers.append(threading.Thread(target=forward, args=(number, name, stream), daemon=True))
                    readers[-1].start()
                threading.Thread(target=lambda child=child: ended.put(child.wait()), daemon=True).start()
            status = next((status for status in (ended.get() for _ in children) if status), 0)
            if status:
                _stop(children)
            for reader in readers:
                reader.join()
            return status
        finally:
            _stop(children)


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        list(command),
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # only this process forwards signals to the child, in a defined order
    )


def _stop(children: Sequence[subprocess.Popen[str]]) -> None:
    """Ends the children, and the remaining processes of their groups."""
    for child in children:
        if child.poll() is None:
            child.terminate()
    until = time.monotonic() + _GRACE_SECONDS
    for child in children:
        with suppress(subprocess.TimeoutExpired):
            child.wait(max(until - time.monotonic(), 0))
    for child in children:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
