"""Start and end of a run: its folder, its record, and the lock of its process.

At a terminal, the first Ctrl-C during a training offers to keep its best epoch, and the next one ends the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from components.artifacts.publish import remove_abandoned
from components.errors import KfrecError, explain_os_error
from components.lifetime import Stopped
from components.notices import Notice, tell
from components.private import modes_of, require_writable
from components.secrets import without_password
from components.tracking.champion import require_task_early
from components.tracking.run import RUN_NAME
from components.tracking.store import database_of, prepare, tracking_uri
from components.train.loop.stopping import request_stop
from pipelines.defaults import OF_REFIT, Pipeline
from pipelines.runs.earlier import checkpoints_in_use
from pipelines.runs.record import FAILED, FINISHED, RECORD, RUNNING, STOPPED, RunRecord, held, read_record
from pipelines.screen import StepOutput
from pipelines.summary import published, refit_name, warnings_of

# Working folders of local steps: run, pipeline, step, and the hidden folder beside the output.
_WORKING = "*/*/*/.*.partial"
# What the runs of a workdir share.
_SHARED = ("mlflow.db", "cache", "cache/*", "mlartifacts", "mlartifacts/*", "mlartifacts/*/models")

# What a client of MLflow, or of its database, sends to any server.
_CREDENTIALS = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN", "MLFLOW_TRACKING_USERNAME", "PGPASSWORD")
# A step is in a process group of its own, so that Ctrl-C reaches this process alone, which ends the steps.
OWN_GROUP = (sys.executable, "-c", "import os, sys; os.setpgid(0, 0); os.execvp(sys.argv[1], sys.argv[1:])")


def begin(pipeline: Pipeline, arguments: Mapping[str, Any], workdir: Path, purpose: str = "") -> RunRecord:
    """Creates a run in a new folder, and prepares MLflow's store.

    Raises:
        KfrecError: the folder or the store cannot be used, or the model to beat is of another task.
    """
    workdir = workdir.absolute()
    require_writable(workdir, _SHARED)
    os.environ["MLFLOW_TRACKING_URI"] = os.environ.get("MLFLOW_TRACKING_URI") or database_uri(workdir)
    prepare()
    if not purpose and "register" in pipeline.steps:
        require_task_early(arguments["registered_model"], pipeline.choices["task"])
    record = RunRecord(
        run_folder(workdir), pipeline, dict(arguments), without_password(tracking_uri()), purpose=purpose
    )
    print(f"run folder {record.folder}", file=sys.stderr)
    return record


@contextmanager
def running(record: RunRecord) -> Iterator[StepOutput]:
    """Locks the folder of a run and updates its record; yields the steps' output.

    Raises:
        KfrecError: another process runs it, or it has finished; an error of the block, with the resume command.
    """
    folder, began = record.folder, time.monotonic()
    step, lines = "", list[str]()
    earlier, resume_command = record.seconds, f"; resume with: {record.resume_command}"
    with held(folder), modes_of(folder.parent):
        if (folder / RECORD).is_file() and read_record(folder).state == FINISHED:
            raise KfrecError(
                f"{folder}: the run has finished, so nothing is left to do; start a new one with kfrec run"
            )
        for path in remove_abandoned(folder.parent.glob(_WORKING)):
            print(f"removed {path}, which a run that was killed left behind", file=sys.stderr)
        record.state, record.message = RUNNING, ""
        record.write()
        os.environ[RUN_NAME] = record.name

        def note() -> None:
            record.run_id, record.steps = output.run_id, output.finished
            record.seconds = earlier + time.monotonic() - began
            record.write()
            _link_outputs(record)

        try:
            with contextlib.closing(StepOutput(folder / "steps.log", note)) as output:
                try:
                    yield output
                except BaseException:
                    step, lines = output.running, output.step_lines()
                    raise
                note()
            record.state = FINISHED
        except Stopped as stopped:
            stopped.note = f" during the step {output.running}" if output.running else ""
            stopped.note += f"; its processes were ended, and what is finished is in {folder}{resume_command}"
            record.state, record.message = STOPPED, str(stopped)
            raise
        except (KfrecError, OSError) as error:
            explained = explain_os_error(error, folder) if isinstance(error, OSError) else error
            record.state, record.message = FAILED, str(explained or error)
            if explained is None:
                raise
            other = "" if record.purpose else " (--set NAME=VALUE changes a parameter)"
            raise KfrecError(f"{explained}{resume_command}{other}") from error
        except BaseException as error:
            record.state, record.message = FAILED, f"{type(error).__name__}: {error}"
            raise
        finally:
            del os.environ[RUN_NAME]
            record.seconds = earlier + time.monotonic() - began
            # A full disk must not hide the error; the record then says running without a process that holds the run.
            with contextlib.suppress(OSError):
                record.write()
            if not record.purpose:
                tell(notice_of(record, step, lines))


def _link_outputs(record: RunRecord) -> None:
    """Links to the outputs of finished steps in the run's folder, by name; kfp.local puts them into deep folders."""
    for step, event in record.steps.items():
        for output, path in event["outputs"].items():
            name = refit_name(output) if step.startswith(OF_REFIT) else output
            link, target = record.folder / name, os.path.relpath(path, record.folder)
            if link.is_symlink():
                link.unlink()
            if not target.startswith(os.pardir) and not link.exists():
                link.symlink_to(target)


def tracked_at(record: RunRecord) -> str:
    """MLflow's store of a run; its password comes from MLFLOW_TRACKING_URI if that is the same store.

    Raises:
        KfrecError: it needs a password, or the environment holds one, and MLFLOW_TRACKING_URI is another store or
            unset. Whoever supplies the folder of a run names a store, which gets no password of the user's.
    """
    uri = tracking_uri()
    if without_password(uri) == record.tracking_uri:
        return uri
    if ":***@" in record.tracking_uri:
        raise KfrecError(
            f"{record.folder}: MLflow keeps the run at {record.tracking_uri}; set MLFLOW_TRACKING_URI to that store "
            "with its password"
        )
    if not database_of(record.tracking_uri) and (held := [name for name in _CREDENTIALS if os.environ.get(name)]):
        raise KfrecError(
            f"{record.folder}: MLflow keeps the run at {record.tracking_uri}, which would get {held[0]} of the "
            "environment; set MLFLOW_TRACKING_URI to that store if it may, or unset the credentials"
        )
    return record.tracking_uri


def database_uri(workdir: Path) -> str:
    """URI of MLflow's database in a folder of runs."""
    return f"sqlite:///{workdir.absolute() / 'mlflow.db'}"


def run_folder(workdir: Path) -> Path:
    """Makes the folder of a new run, which only this user, or the group of the workdir, may open.

    Raises:
        KfrecError: it cannot be made.
    """
    folder = workdir / f"{time.strftime('%Y%m%d-%H%M%S')}-{uuid.uuid4().hex[:4]}"
    try:
        with modes_of(workdir):
            folder.mkdir(parents=True)
    except OSError as error:
        explained = KfrecError(f"{folder}: cannot be created ({error.strerror}); choose another workdir")
        raise explain_os_error(error, folder) or explained from error
    return folder


def notice_of(record: RunRecord, step: str, log: Sequence[str]) -> Notice:
    """The notice of a run that has ended.

    Args:
        step: that failed; empty if none did.
    """
    summary = record.summary()
    return Notice(
        record.name,
        f"{record.pipeline.kind} of {record.pipeline.model}",
        record.state,
        record.message,
        step,
        log,
        published(summary),
        summary.get("metrics", {}),
        [warning["message"] for warning in warnings_of(record.steps)],
        str(record.folder),
    )


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
