"""Launchers of a training's workers: the interface, and the back ends for this machine.

mpirun comes from this Python environment and need not be on the PATH.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

import components
from components.errors import KfrecError, WorkerCrashed
from components.lifetime import VARIABLE as PARENT
from components.lifetime import as_parent, stopping_in_order
from components.parameters import parameters_of, plain
from components.private import SAFE_PATH
from components.progress import EVENTS
from components.steps.catalog import LaunchParameters, worker_parameters
from components.steps.training_parameters import MPI
from components.train.launching.relay import Measured, Relay, ignored
from components.train.launching.transports import mpi_environment, ranks_of_this_machine

MODULE = "components.train.worker"
# The scratch volume of a training pod.
STAGE = "/stage"
# From SIGTERM to SIGKILL.
_GRACE_SECONDS = 15


class TrainingFailed(KfrecError):
    """The training failed permanently: a retry of the step would fail again or exceed a limit again."""


class Launcher(Protocol):
    """Where the workers run."""

    def run(self, workers: int, arguments: Sequence[str], log: Path, measured: Measured) -> None:
        """Runs the workers to their end, showing the first one's progress.

        Args:
            log: file for all their output.
            measured: takes the metrics of steps and epochs while they train.

        Raises:
            TrainingFailed: a retry would fail again.
            KfrecError: a worker's message about invalid input.
            WorkerCrashed: a worker failed for another reason.
        """


class LocalLauncher:
    """Processes of this machine, which communicate over Gloo, or over MPI, for which mpirun starts them.

    Args:
        transport: "gloo", "mpi" or "auto", which is Gloo.
    """

    def __init__(
        self, transport: str, prefix: str = sys.prefix, python: str = sys.executable, module: str = MODULE
    ) -> None:
        self._transport, self._prefix, self._python, self._module = transport, prefix, python, module

    def command(self, workers: int, arguments: Sequence[str]) -> list[str]:
        """The command line of a worker, or that of mpirun, which starts all of them."""
        worker = [self._python, "-m", self._module, *arguments]
        if not self._by_mpirun(workers):
            return worker
        # A rank on another host has no process to end with; mpirun ends it.
        exported = [word for name in self.environment() if name != PARENT for word in ("-x", name)]
        binding = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--tag-output"]
        return [str(Path(self._prefix) / "bin" / "mpirun"), *binding, "-np", str(workers), *exported, *worker]

    @contextmanager
    def environments(self, workers: int) -> Iterator[list[dict[str, str]]]:
        """The complete environment of each process to start, while the workers may run."""
        own = os.environ | self.environment()
        if workers == 1 or self._by_mpirun(workers):
            yield [own]
            return
        with ranks_of_this_machine(workers) as ranks:
            yield [own | rank for rank in ranks]

    def _by_mpirun(self, workers: int) -> bool:
        return workers > 1 and self._transport == MPI

    def environment(self) -> dict[str, str]:
        """The workers' environment variables, in addition to this process's."""
        root = str(Path(components.__file__).parents[1])
        earlier = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path != root]
        return {
            EVENTS: "1",
            "PYTHONPATH": os.pathsep.join([root, *earlier]),
            "PYTHONUNBUFFERED": "1",
            "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
            **mpi_environment(self._prefix),
            **as_parent(),
            **SAFE_PATH,
        }

    def run(self, workers: int, arguments: Sequence[str], log: Path, measured: Measured = ignored) -> None:
        with log.open("w") as file, self.environments(workers) as environments:
            relay = Relay(file, measured, tagged=self._by_mpirun(workers), several=workers > 1)
            with relay:
                status = run_processes(self.command(workers, arguments), environments, relay.line)
        if relay.error is not None:
            raise relay.error
        if status == -signal.SIGKILL or relay.was_killed:
            raise WorkerCrashed(
                "a worker was killed (SIGKILL), probably because the memory of this machine or container did not "
                "suffice; give it more memory, or lower global_batch_size, set disable_cache, or use fewer workers"
            )
        if status:
            how = f"were ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
            last = f", after the line {relay.last_line()!r}" if relay.last_line() else ""
            message = relay.last_exception() or f"the workers {how}{last}"
            raise WorkerCrashed(f"{message}; the output of the workers is in {log}")


def worker_arguments(parameters: LaunchParameters, data: str, results: str, checkpoints: str) -> list[str]:
    """Folders or URIs, and every training parameter that differs from its default; empty ``checkpoints`` is omitted."""
    folders = [f"--dataset_dir={data}", f"--results_dir={results}"]
    folders += [f"--save_checkpoint_path={checkpoints}"] if checkpoints else []
    values = {
        parameter.name: getattr(parameters, parameter.name)
        for parameter in parameters_of(worker_parameters(parameters.model_type, parameters.task))
        if getattr(parameters, parameter.name, parameter.default) != parameter.default
    }
    return folders + [f"--{name}={_text(value)}" for name, value in values.items()]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(plain(value))


def run_processes(
    command: Sequence[str], environments: Sequence[Mapping[str, str]], line: Callable[[int, str, str], None]
) -> int:
    """Runs a command once in each environment, to the end, and passes on every output line.

    When one fails, the others are stopped. When this process is asked to stop (SIGTERM, Ctrl-C) or ``line`` raises, the
    children and theirs are stopped first.

    Args:
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
                    reader = threading.Thread(target=forward, args=(number, name, stream), daemon=True)
                    reader.start()
                    readers.append(reader)
                threading.Thread(target=lambda child=child: ended.put(child.wait()), daemon=True).start()
            status = next((status for status in (ended.get() for _ in children) if status), 0)
            if status:
                _stop(children)
            for reader in readers:
                reader.join()
            return status
        finally:
            _stop(children)
            for reader in readers:
                reader.join(1.0)  # one that still writes while Python shuts down would abort this process


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
