"""One MLflow run for a whole pipeline run: each step joins it, logs its part and leaves."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from components.lifetime import start_time
from components.parameters import as_plain
from components.tracking.failures import is_of_the_store, unusable
from components.tracking.store import connect, database_of, experiment_id, missing

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PIPELINE_RUN = "kfrec.pipeline_run"
# The environment variable with the name of the run on this machine, which MLflow shows too.
RUN_NAME = "KFREC_RUN_NAME"
_PARENT, _NOTE = "mlflow.parentRunId", "mlflow.note.content"
_CONTEXT = "mlflow.data.context"
# Ends the id of a pipeline run that is part of another one, which the id begins with.
_PART = "/refit"
# The machine and the process that own a RUNNING run, and why a run is KILLED, or was before a retry.
_HOST, _PROCESS, _KILLED = "kfrec.host", "kfrec.process", "kfrec.killed"
# Limits of one log_batch request.
_METRICS, _PARAMETERS = 1000, 100
_PARAMETER_LENGTH, _TAG_LENGTH = 6000, 5000
# The run that a step belongs to is not logged as a parameter.
_WHICH_RUN = ("experiment", "run_id")


class TrackedRun:
    """An open MLflow run.

    Attributes:
        tags: of the run when it was opened, and those set since.
    """

    def __init__(self, client: MlflowClient, run: Run) -> None:
        self.client = client
        self.id: str = run.info.run_id
        self.tags: dict[str, str] = dict(run.data.tags)
        self._logged: dict[str, str] = dict(run.data.params)

    def log_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Logs parameters, in batches.

        MLflow's parameters are immutable: a re-run stores a different value as the tag ``changed.<name>``.
        """
        from mlflow.entities import Param

        texts = {name: str(value)[:_PARAMETER_LENGTH] for name, value in parameters.items()}
        new = [Param(name, value) for name, value in texts.items() if name not in self._logged]
        for start in range(0, len(new), _PARAMETERS):
            self.client.log_batch(self.id, params=new[start : start + _PARAMETERS])
        self.set_tags({f"changed.{name}": v for name, v in texts.items() if self._logged.get(name, v) != v})
        self._logged = texts | self._logged

    def log_step(self, parameters: Any, step: str) -> None:
        """Logs a step's dataclass of parameters as ``<step>.<name>``."""
        values = {name: value for name, value in as_plain(parameters).items() if name not in _WHICH_RUN}
        self.log_parameters({f"{step}.{name}": value for name, value in values.items()})

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Logs metrics at one step (batch or epoch), or of the whole run if ``step`` is None."""
        self.log_series([(step or 0, metrics)])

    def log_series(self, series: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Logs (step, metrics) pairs in as few requests as possible."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        metrics = [Metric(name, float(value), now, step) for step, group in series for name, value in group.items()]
        for start in range(0, len(metrics), _METRICS):
            self.client.log_batch(self.id, metrics=metrics[start : start + _METRICS])

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Sets or overwrites tags."""
        from mlflow.entities import RunTag

        if tags:
            texts = {name: str(value)[:_TAG_LENGTH] for name, value in tags.items()}
            self.client.log_batch(self.id, tags=[RunTag(name, text) for name, text in texts.items()])
            self.tags |= texts

    def log_inputs(self, datasets: Sequence[Mapping[str, Any]], context: Sequence[str]) -> None:
        """Logs the run's inputs: the fields of each ``mlflow.entities.Dataset``, and its MLflow context."""
        from mlflow.entities import Dataset, DatasetInput, InputTag

        tags = [[InputTag(_CONTEXT, each)] for each in context]
        inputs = [DatasetInput(Dataset(**fields), tag) for fields, tag in zip(datasets, tags, strict=True)]
        self.client.log_inputs(self.id, inputs)

    def log_artifact(self, path: Path | str, folder: str | None = None) -> None:
        """Uploads a file, or a folder recursively, below ``folder`` of the run's artifacts."""
        upload = self.client.log_artifacts if Path(path).is_dir() else self.client.log_artifact
        upload(self.id, str(path), folder)


def start_nested(parent: TrackedRun, title: str, tags: Mapping[str, str]) -> str:
    """Starts a nested run in the experiment of ``parent`` and returns its id; a step joins it by MLFLOW_RUN_ID."""
    experiment = parent.client.get_run(parent.id).info.experiment_id
    every = _origin_tags({_PARENT: parent.id, **tags})
    return str(parent.client.create_run(experiment, tags=every, run_name=title).info.run_id)


@contextmanager
def nested_run(parent: TrackedRun, title: str, tags: Mapping[str, str]) -> Iterator[TrackedRun]:
    """The nested run of ``parent`` with these tags, found or started; it is FINISHED after the block.

    Args:
        tags: at least one, whose values have no quote.
    """
    experiment = parent.client.get_run(parent.id).info.experiment_id
    query = " and ".join(f"tags.`{name}` = '{_quotable(value)}'" for name, value in tags.items())
    found = parent.client.search_runs([experiment], query, max_results=1, order_by=["attributes.start_time ASC"])
    opened = found[0].info.run_id if found else start_nested(parent, title, tags)
    yield TrackedRun(parent.client, parent.client.get_run(opened))
    parent.client.set_terminated(opened, status_after(None))


def refit_of(run_id: str) -> str:
    """The id of the refit of a pipeline run, whose MLflow run is nested in that of the pipeline run; empty if it is."""
    return f"{run_id}{_PART}" if run_id else ""


def open_run(experiment: str, run_id: str, title: str, opened: str = "") -> TrackedRun:
    """Joins or starts an MLflow run; see ``tracked_run``.

    Args:
        opened: MLflow's id of the run, if it exists already.

    Raises:
        Unreachable: the tracking server does not answer, or fails.
        KfrecError: it refuses, or there is no such run.
    """
    from mlflow.exceptions import MlflowException

    client = connect()
    try:
        return TrackedRun(client, _by_id(client, opened) if opened else _open(client, experiment, run_id, title))
    except (MlflowException, *missing()) as error:
        raise unusable(client.tracking_uri, error) from error


@contextmanager
def tracked_run(experiment: str, run_id: str = "", title: str = "run") -> Iterator[TrackedRun]:
    """Joins or starts an MLflow run; after the block it is FINISHED, and can be joined again.

    It is FAILED if the block raises, and KILLED if the process is asked to stop. RUNNING runs of dead processes of this
    host are ended first.

    Args:
        experiment: name of the experiment, created if it does not exist.
        run_id: id of the pipeline run; its steps join the one MLflow run with the tag ``kfrec.pipeline_run=<run_id>``.
            Empty joins the run MLFLOW_RUN_ID, or else starts a new one. A new run of a pipeline run is nested in the
            parent of MLFLOW_RUN_ID, or in that run itself.
        title: prefix of a new run's name, before the time and the first characters of ``run_id``; the description of a
            run that has a name on this machine, which is then its name in MLflow.

    Raises:
        KfrecError: the tracking server does not answer, or there is no run MLFLOW_RUN_ID.
    """
    from mlflow.exceptions import MlflowException

    run = open_run(experiment, run_id, title)
    try:
        yield run
        run.client.set_terminated(run.id, status_after(None))
    except BaseException as error:
        with suppress(MlflowException):  # report the first failure
            run.client.set_terminated(run.id, status_after(error))
        if isinstance(error, MlflowException) and is_of_the_store(error):
            raise unusable(run.client.tracking_uri, error) from error
        raise


def status_after(error: BaseException | None) -> str:
    """MLflow's status of a run after a step: KILLED if it was asked to stop, FAILED after another error."""
    if error is None:
        return "FINISHED"
    return "KILLED" if _is_stop(error) else "FAILED"


def end_failed(experiment: str, run_id: str) -> None:
    """Sets the MLflow run of a pipeline run to FAILED; its last finished step left it FINISHED.

    Args:
        run_id: of the pipeline run; ignored if it has no MLflow run.
    """
    from mlflow.exceptions import MlflowException

    with suppress(MlflowException, KfrecError):  # report the failure of the step
        client = connect()
        run = _of_pipeline(client, experiment_id(client, experiment), run_id)
        if run is not None and run.info.status in ("RUNNING", "FINISHED"):
            client.set_terminated(run.info.run_id, "FAILED")


def _is_stop(error: BaseException) -> bool:
    """Whether the process was asked to stop, by Ctrl-C or SIGTERM (steps turn the signal into SystemExit)."""
    stops = (128 + signal.SIGTERM, 128 + signal.SIGINT)
    return isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and error.code in stops)


def _open(client: MlflowClient, experiment: str, run_id: str, title: str) -> Run:
    joined = os.environ.get("MLFLOW_RUN_ID", "").strip()
    if joined and not run_id:
        run = _by_id(client, joined)
        client.update_run(joined, status="RUNNING")
        return run  # its owner may continue after this process
    own = experiment_id(client, experiment)
    # In a workdir all experiments are checked; on a shared server only this one.
    local = database_of(client.tracking_uri) is not None
    _end_abandoned(client, [e.experiment_id for e in client.search_experiments()] if local else [own])
    existing = _of_pipeline(client, own, run_id) if run_id else None
    if existing is None:
        named = os.environ.get(RUN_NAME, "") if run_id else ""
        whole = _of_pipeline(client, own, run_id.removesuffix(_PART)) if run_id.endswith(_PART) else None
        parent = whole.info.run_id if whole else _parent(client, joined)
        if whole:
            named = f"{whole.info.run_name} refit"
        tags = _origin_tags({PIPELINE_RUN: run_id, _PARENT: parent, _NOTE: title if named else ""})
        return client.create_run(own, tags=tags, run_name=named or _name(title, run_id))
    # Owner tags first: a run must never be RUNNING with a dead owner.
    for name, value in _owner_tags().items():
        client.set_tag(existing.info.run_id, name, value)
    if existing.info.status != "RUNNING":
        client.update_run(existing.info.run_id, status="RUNNING")
    return existing


def _parent(client: MlflowClient, started: str) -> str:
    """The parent of a pipeline run's MLflow run: that of the run that KFP started for the step; empty if there is none.

    KFP 2.17 sets MLFLOW_RUN_ID, to a run for each step below one for the pipeline run. It may be of another server.
    """
    if not started:
        return ""
    try:
        return str(_by_id(client, started).data.tags.get(_PARENT, started))
    except KfrecError:
        return ""


def _name(title: str, run_id: str) -> str:
    """A name such as "sim synthetic 2026-11-23 14:05 19024073"."""
    return f"{title} {time.strftime('%Y-%m-%d %H:%M')} {(run_id or uuid.uuid4().hex)[:8]}"


def _of_pipeline(client: MlflowClient, experiment_id: str, run_id: str) -> Run | None:
    """The oldest run with the tag, so that two steps that created runs concurrently agree afterwards."""
    query = f"tags.`{PIPELINE_RUN}` = '{_quotable(run_id)}'"
    runs = client.search_runs([experiment_id], query, max_results=1, order_by=["attributes.start_time ASC"])
    return runs[0] if runs else None


def _by_id(client: MlflowClient, run_id: str) -> Run:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise KfrecError(
            f"MLFLOW_RUN_ID={run_id}: no such run at {client.tracking_uri}; unset it or MLFLOW_TRACKING_URI"
        ) from None


def _quotable(run_id: str) -> str:
    if "'" in run_id:
        raise KfrecError(f"parameter run_id={run_id!r} holds a quote; give the plain id of the pipeline run")
    return run_id


def _owner_tags() -> dict[str, str]:
    """Tags of a run that this process owns."""
    return {_HOST: _host(), _PROCESS: f"{os.getpid()}:{start_time(os.getpid())}"}


def _origin_tags(others: Mapping[str, str]) -> dict[str, str]:
    """Tags of a run that this process starts: its commit, user and owner, and others; the empty ones are left out."""
    from mlflow.utils.git_utils import get_git_commit

    commit = get_git_commit(str(Path(__file__).parent))
    tags = {"mlflow.source.git.commit": commit, "mlflow.user": _user(), **_owner_tags(), **others}
    return {name: value for name, value in tags.items() if value}


def _end_abandoned(client: MlflowClient, experiments: Sequence[str]) -> None:
    """Sets RUNNING runs of dead processes of this host to KILLED."""
    query = f"attributes.status = 'RUNNING' and tags.`{_HOST}` = '{_host()}'"
    for run in client.search_runs(list(experiments), query) if experiments else ():
        if _is_gone(run.data.tags):
            pid = run.data.tags[_PROCESS].partition(":")[0]
            client.set_tag(run.info.run_id, _KILLED, f"process {pid} ended without ending the run")
            client.set_terminated(run.info.run_id, "KILLED")


def _user() -> str:
    """The user of this process; a container's user may have no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"uid {os.getuid()}"


def _is_gone(tags: Mapping[str, str]) -> bool:
    pid, _, started = tags.get(_PROCESS, "").partition(":")
    return pid.isdigit() and bool(started) and start_time(int(pid)) != started


def _host() -> str:
    """The machine and, if containers share its name, the container: a pid is only valid there."""
    try:
        space = Path("/proc/self/ns/pid").readlink().name.strip("pid:[]")
    except OSError:
        space = ""
    return f"{socket.gethostname()}/{space}"
