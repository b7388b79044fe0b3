"""run.json: definition, progress and state of a run."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from components.errors import KfrecError
from components.secrets import without_passwords
from components.settings_file import checked
from pipelines.defaults import PIPELINES, Pipeline

RECORD, SUMMARY = "run.json", "summary.json"
RUNNING, FINISHED, FAILED, STOPPED = "running", "finished", "failed", "stopped"
# Alias of the newest run of a folder.
LAST = "last"
_FORMAT = 1


@dataclass
class RunRecord:
    """A run; its folder stores it as run.json.

    Attributes:
        pipeline: kind, model, data set and task.
        parameters: every pipeline parameter; the file omits passwords.
        tracking_uri: MLflow's store of the run, without a password.
        started: Unix time in seconds.
        run_id: of the pipeline run, empty before the first step.
        purpose: the command that owns the run, such as "kfrec sweep FILE"; empty is kfrec run.
        state: RUNNING until the run ends in order; ``state_now`` tells a killed run from a running one.
        message: why it failed or was stopped, or why a retraining trained nothing.
    """

    folder: Path
    pipeline: Pipeline
    parameters: dict[str, Any]
    tracking_uri: str
    started: float = field(default_factory=time.time)
    run_id: str = ""
    steps: dict[str, dict[str, Any]] = field(default_factory=dict)
    purpose: str = ""
    state: str = RUNNING
    message: str = ""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def resume_command(self) -> str:
        return self.purpose or shlex.join(["kfrec", "run", "--resume", str(self.folder)])

    def state_now(self) -> str:
        """Its state; STOPPED if the process died without recording a state."""
        if self.state != RUNNING:
            return RUNNING if is_held(self.folder) else self.state
        return RUNNING if is_held(self.folder) else STOPPED

    def summary(self) -> dict[str, Any]:
        """The content of summary.json; empty if there is none.

        Raises:
            KfrecError: the file is damaged.
        """
        path = self.folder / SUMMARY
        return read_summary(path) if path.is_file() else {}

    def write(self) -> None:
        """Replaces run.json atomically."""
        body = {"format": _FORMAT} | asdict(self) | {"pipeline": self.pipeline._asdict()}
        del body["folder"]
        body["parameters"] = without_passwords(body["parameters"])
        partial = self.folder / f".{RECORD}.partial"
        partial.write_text(json.dumps(body, indent=2) + "\n")
        partial.replace(self.folder / RECORD)


def read_record(folder: Path) -> RunRecord:
    """The run of a folder.

    Raises:
        KfrecError: the folder is not a run's, or its record is damaged.
    """
    path = folder / RECORD
    try:
        body = json.loads(path.read_text())
        if body.pop("format") != _FORMAT:
            raise ValueError("of another format")
        pipeline = Pipeline(**body.pop("pipeline"))
        if pipeline.kind not in PIPELINES:
            raise ValueError(f"there is no pipeline {pipeline.kind}")
        run = RunRecord(folder.absolute(), pipeline, **checked(f"{path}", body, RunRecord))
        if not all(isinstance(event.get("outputs"), dict) for event in run.steps.values()):
            raise ValueError("a step has no outputs")
        _ = pipeline.choices  # the model is installed
        return run
    except (FileNotFoundError, NotADirectoryError):
        raise KfrecError(f"{folder}: not the folder of a run, as it has no {RECORD}; see kfrec runs") from None
    except KfrecError as error:
        raise KfrecError(f"{path}: {str(error).removeprefix(f'{path}: ')}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise KfrecError(f"{path}: not a run's record ({error}); start a new run") from None


def read_summary(path: Path) -> dict[str, Any]:
    """The content of a summary.json.

    Raises:
        KfrecError: the file is not one.
    """
    try:
        body = json.loads(path.read_text())
        if not isinstance(body["parameters"], dict) or not isinstance(body["metrics"], dict):
            raise ValueError("parameters or metrics are missing")
        return body
    except OSError as error:
        raise KfrecError(f"{path}: cannot be read ({error.strerror}); give the {SUMMARY} of a run") from None
    except (ValueError, KeyError, TypeError) as error:
        raise KfrecError(f"{path}: not the {SUMMARY} of a run ({error}); give another file") from None


def every_run(workdir: Path, left_out: Callable[[KfrecError], None] | None = None) -> list[RunRecord]:
    """The runs of a folder, oldest first.

    Args:
        left_out: called with the error of each damaged record; None raises the error.

    Raises:
        KfrecError: there is no such folder, or a record is damaged.
    """
    if not workdir.is_dir():
        raise KfrecError(f"{workdir}: no such folder; start a run with kfrec run, or give --workdir FOLDER")
    runs = []
    for path in sorted(workdir.glob(f"*/{RECORD}")):
        try:
            runs.append(read_record(path.parent))
        except KfrecError as error:
            if left_out is None:
                raise
            left_out(error)
    return sorted(runs, key=lambda run: (run.started, run.name))


def find_run(workdir: Path, name: str) -> RunRecord:
    """A run by its name in ``workdir``, its folder, or ``last``.

    Raises:
        KfrecError: there is no such run.
    """
    if not name.strip():
        raise KfrecError("the run's name is empty; give a run that kfrec runs lists, its folder, or last")
    if name == LAST:
        runs = every_run(workdir)
        if not runs:
            raise KfrecError(f"{workdir}: no runs here yet; start one with kfrec run, or give --workdir FOLDER")
        return runs[-1]
    for folder in (workdir / name, Path(name)):
        if folder.is_dir():
            return read_record(folder)
    raise KfrecError(f"no run {name} in {workdir}; kfrec runs lists them, and --workdir FOLDER names another folder")


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Locks a run's folder; the lock ends with the process.

    Raises:
        KfrecError: another process holds it, so the run is still running.
    """
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise still_running(folder) from None
        except OSError:  # a file system without locks: a second process goes unnoticed
            pass
        yield
    finally:
        os.close(lock)


def still_running(folder: Path) -> KfrecError:
    """The error of a second process in a run's folder."""
    return KfrecError(f"{folder}: the run is still running; wait for it or stop it")


def is_held(folder: Path) -> bool:
    """Whether a process holds the lock of a run's folder."""
    with suppress(OSError):
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(lock)
    return False
