"""Process shutdown: together with the parent process, and in order on a signal."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

# The process to end with, as "<pid>:<start time>"; the start time distinguishes it from a reused pid.
VARIABLE = "KFREC_PARENT"
_GRACE_SECONDS = 20.0
_POLL_SECONDS = 0.5
_AGAIN_SECONDS = 0.05


class Stopped(SystemExit):
    """SIGTERM or Ctrl-C ends this process through its ``finally`` blocks.

    Attributes:
        note: what outlives the process, for the message.
    """

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)
        self.number = number
        self.note = ""

    def __str__(self) -> str:
        how = "interrupted" if self.number == signal.SIGINT else f"stopped by {signal.Signals(self.number).name}"
        return f"{how}{self.note}"


_handling = threading.Lock()


@contextmanager
def stopping_in_order(with_descendants: bool = False) -> Iterator[None]:
    """Turns SIGTERM and Ctrl-C into ``Stopped``; a second signal does not disturb the cleanup.

    After a signal, ``Stopped`` is the one exception that leaves the block. A signal may arrive in the middle of a
    library's native code, such as an import of pydantic's, which then raises its own error instead; or where Python
    drops every exception, as in a finalizer or while it compiles a module: the signal is then sent again.

    Signal handlers exist in the main thread only: in another thread, and within another such block, this does nothing.

    Args:
        with_descendants: also ask all descendants to stop, and wait for their end.
    """
    if threading.current_thread() is not threading.main_thread() or not _handling.acquire(blocking=False):
        yield
        return
    if with_descendants:
        import psutil  # noqa: F401 -- a signal handler is no place for a first import
    numbers = (signal.SIGTERM, signal.SIGINT)
    asked: list[int] = []
    requests: list[Stopped] = []
    is_dropped, has_ended = threading.Event(), threading.Event()
    references = 0  # to a request that nobody raises or handles

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal references
        if not requests:
            if with_descendants:
                asked.extend(descendants(os.getpid()))
                _send(asked, signal.SIGTERM)
            requests.append(Stopped(number))
            references = sys.getrefcount(requests[0])
            threading.Thread(target=send_again, daemon=True).start()
        elif not is_dropped.is_set():
            return
        is_dropped.clear()
        raise requests[0]

    def send_again() -> None:
        while not has_ended.wait(_AGAIN_SECONDS):
            if sys.getrefcount(requests[0]) == references:
                is_dropped.set()
                os.kill(os.getpid(), requests[0].number)

    def unraisable(what: sys.UnraisableHookArgs) -> None:
        if not requests or what.exc_value is not requests[0]:
            report(what)

    earlier = {number: signal.signal(number, stop) for number in numbers}
    report, sys.unraisablehook = sys.unraisablehook, unraisable
    try:
        yield
    except Exception as error:
        if requests:
            raise requests[0] from error
        raise
    finally:
        has_ended.set()
        sys.unraisablehook = report
        _await_end(asked)
        for number, handler in earlier.items():
            signal.signal(number, handler)
        _handling.release()


def as_parent() -> dict[str, str]:
    """The environment variable that names this process as the one its children end with."""
    return {VARIABLE: f"{os.getpid()}:{start_time(os.getpid())}"}


def end_with_parent(number: int = signal.SIGTERM) -> None:
    """Ends this process when the process that ``VARIABLE`` names ends for any reason.

    A thread waits for it. Without the variable, as in a process started by hand, nothing happens.

    Args:
        number: the signal this process sends itself; after a grace period SIGKILL follows.
    """
    pid, _, started = os.environ.get(VARIABLE, "").partition(":")
    if not pid:
        return
    threading.Thread(target=_watch, args=(int(pid), started, number), name="parent watch", daemon=True).start()


def descendants(pid: int) -> list[int]:
    """All descendants of ``pid``, parents first."""
    import psutil

    try:
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    except psutil.Error:  # in a signal handler: a stop must not be lost
        return []


def start_time(pid: int) -> str:
    """When a running process started, in clock ticks since boot; empty if it does not exist.

    psutil's time is one of the clock, which may be set while the process runs.
    """
    try:
        # After the name, which may contain spaces and brackets: state, parent and the following fields of proc(5).
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _await_end(pids: Iterable[int]) -> None:
    """Waits until the processes have ended, and kills those that have not within the grace period."""
    until = time.monotonic() + _GRACE_SECONDS
    left = [pid for pid in pids if start_time(pid)]
    while left and time.monotonic() < until:
        time.sleep(0.05)
        left = [pid for pid in left if start_time(pid)]
    _send(left, signal.SIGKILL)


def _watch(pid: int, started: str, number: int) -> None:
    _wait_for_end(pid, started)
    with suppress(OSError, ValueError):  # the reader of this process's output may be gone, too
        print(f"process {os.getpid()} ends with process {pid}, which started it", file=sys.stderr, flush=True)
    os.kill(os.getpid(), number)
    time.sleep(_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for_end(pid: int, started: str) -> None:
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except OSError:  # a kernel before 5.3, or a sandbox that forbids the call
        while start_time(pid) == started:
            time.sleep(_POLL_SECONDS)
        return
    try:
        if start_time(pid) == started:
            select.select([descriptor], [], [])
    finally:
        os.close(descriptor)
