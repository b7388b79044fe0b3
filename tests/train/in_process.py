"""A single worker in the tests' process, which has TensorFlow already: another process imports it for seconds."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from components.progress import EVENTS
from components.train import worker
from components.train.launching.relay import Measured, Relay, ignored
from components.train.loop import runtime


def run_worker(arguments: Sequence[str], log: Path, measured: Measured = ignored) -> None:
    """Runs one worker to its end, as :class:`LocalLauncher` does; ``log`` receives its output.

    Raises:
        KfrecError: the error that the worker reported.
    """
    said = io.StringIO()
    with (
        mock.patch.object(runtime, "configure"),  # the threads of this TensorFlow cannot be set any more
        mock.patch.object(worker, "end_with_parent"),
        mock.patch.dict(os.environ, {EVENTS: "1"}),
        redirect_stdout(said),
        redirect_stderr(said),
    ):
        status = worker.main(arguments)
    with log.open("w") as file, Relay(file, measured) as relay:
        for line in said.getvalue().splitlines():
            relay.line(0, "stdout", line)
    if relay.error is not None:
        raise relay.error
    assert status == 0, said.getvalue()


class InProcess:
    """A :class:`components.train.launching.launch.Launcher` of one worker."""

    def run(self, workers: int, arguments: Sequence[str], log: Path, measured: Measured = ignored) -> None:
        assert workers == 1
        run_worker(arguments, log, measured)
