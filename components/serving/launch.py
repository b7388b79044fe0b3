"""Starts the processes of a model's server behind one socket, and ends with them."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from components.errors import KfrecError
from components.lifetime import as_parent
from components.private import SAFE_PATH
from components.serving.counters import Counters
from components.serving.worker import Task

# Seconds in which a stopped process ends, its last answers included.
_GRACE = 18


@dataclass(frozen=True)
class Processes:
    """Processes that wait for a model."""

    _running: Sequence[subprocess.Popen[str]]
    _listener: int
    _counts: Path

    def serve(self, folder: Path, name: str, version: str) -> None:
        """Returns when all processes have loaded the model and listen.

        Raises:
            KfrecError: the model cannot be served.
        """
        for number, process in enumerate(self._running):
            task = Task(str(folder), name, version, self._listener, str(self._counts), number, len(self._running))
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                print(task.to_json(), file=process.stdin, flush=True)
        for process in self._running:
            if not (line := _output(process).readline()):
                raise _ended(process)
            if "error" in (answer := json.loads(line)):
                raise KfrecError(answer["error"])

    def wait(self) -> None:
        """Returns never.

        Raises:
            KfrecError: a process has ended.
        """
        outputs = {_output(process): process for process in self._running}
        ended, _, _ = select.select(list(outputs), [], [])
        raise _ended(outputs[ended[0]])


def _output(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _ended(process: subprocess.Popen[str]) -> KfrecError:
    return KfrecError(f"a process of the server ended with status {process.wait()}; its messages are above")


@contextmanager
def processes(count: int, host: str, port: int, scratch: Path) -> Iterator[Processes]:
    """Starts processes, which import TensorFlow meanwhile, and ends them with the block.

    Args:
        count: of processes.
        host: address to listen on.
        port: port to listen on.
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
