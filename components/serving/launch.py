"""Starts the processes of a model's server behind one socket, and ends with them."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from components.errors import KfrecError
from components.lifetime import as_parent
from components.private import SAFE_PATH
from components.serving.counters import Counters
from components.serving.worker import LOAD, SWITCH, ModelFiles, Task

# Seconds in which a stopped process ends: its last answers, and its last rows of the log. Kubernetes waits for 30.
_GRACE = 25


@dataclass(frozen=True)
class Processes:
    """Processes that wait for a model."""

    _running: Sequence[subprocess.Popen[str]]
    _listener: int
    _counts: Path

    def serve(self, model: ModelFiles, log: str = "", variant: str = "") -> None:
        """Returns when all processes have loaded the model and listen.

        Args:
            log: folder or URI of the log of served rows; empty logs nothing.
            variant: of the rows of the log.

        Raises:
            KfrecError: the model cannot be served.
        """
        count = len(self._running)
        self._say(
            asdict(Task(asdict(model), self._listener, str(self._counts), number, count, log, variant))
            for number in range(count)
        )
        if error := self._error():
            raise KfrecError(error)

    def replace(self, model: ModelFiles) -> str:
        """Loads another model beside the one that answers, and switches to it when all processes have it.

        Returns:
            Why the one before stays; empty if it does not.

        Raises:
            KfrecError: a process has ended.
        """
        self._say([{LOAD: asdict(model)}] * len(self._running))
        error = self._error()
        if not error:
            self._say([SWITCH] * len(self._running))
        return error

    def wait(self, seconds: float | None) -> None:
        """Returns after so many seconds; None is never.

        Raises:
            KfrecError: a process has ended.
        """
        outputs = {_output(process): process for process in self._running}
        ended, _, _ = select.select(list(outputs), [], [], seconds)
        if ended:
            raise _ended(outputs[ended[0]])

    def _say(self, orders: Iterable[Mapping[str, Any]]) -> None:
        for process, order in zip(self._running, orders, strict=True):
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                print(json.dumps(order), file=process.stdin, flush=True)

    def _error(self) -> str:
        """The first error of the processes' next answers; empty without one."""
        errors = []
        for process in self._running:
            if not (line := _output(process).readline()):
                raise _ended(process)
            errors.append(json.loads(line).get("error", ""))
        return next(filter(None, errors), "")


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _ended(process: subprocess.Popen[str]) -> KfrecError:
    return KfrecError(f"a process of the server ended with status {process.wait()}; its messages are above")


@contextmanager
def processes(count: int, host: str, port: int, scratch: Path) -> Iterator[Processes]:
    """Starts processes, which import TensorFlow meanwhile, and ends them with the block.

    Args:
        scratch: folder for a file of the processes.

    Raises:
        KfrecError: the port cannot be used.
    """
    counts = scratch / "counts"
    Counters.make(counts, count)
    with _bound(host, port) as listener:
        running = [
            subprocess.Popen(
                [sys.executable, "-m", "components.serving"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                pass_fds=[listener.fileno()], env=os.environ | SAFE_PATH | as_parent(),
                # Ctrl-C of a terminal reaches the launcher alone, which stops the others in order.
                start_new_session=True,
            )
            for _ in range(count)
        ]  # fmt: skip
        descriptor = listener.fileno()
    try:
        yield Processes(running, descriptor, counts)
    finally:
        for process in running:
            process.terminate()
        for process in running:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE)
            process.kill()


def _bound(host: str, port: int) -> socket.socket:
    """A socket that does not listen yet: a connection is refused until a model is there."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
    except OSError as error:
        made.close()
        raise KfrecError(f"--host {host} --port {port} cannot be used ({error.strerror}); give another one") from None
    return made
