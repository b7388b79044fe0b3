"""Buffers a training's logs while the MLflow server is unavailable; the next step delivers them.

A training takes hours, so an unavailable server must not end it. Other steps are short and need the server.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from components.artifacts import Artifact
from components.artifacts.remote import read_remote, write_remote
from components.errors import KfrecError, Unreachable
from components.storage import open_store
from components.tracking.failures import is_of_the_store, unusable
from components.tracking.run import TrackedRun, open_run

_NAME = "_tracking.json"
# Allowlist of buffered methods of ``TrackedRun``: a file in object storage is untrusted input.
_LOGGED = ("log_parameters", "log_series", "set_tags", "log_inputs", "log_artifact")
_FINISHED = "FINISHED"


class KeptRun:
    """A run that buffers its logs while the server is unavailable; it takes the calls of ``_LOGGED``.

    Args:
        run: the MLflow run; None if it could not be opened.
        which: experiment, run_id and title, for a later ``open_run``.
    """

    def __init__(self, run: TrackedRun | None, which: Mapping[str, str]) -> None:
        self._run, self._which = run, which
        self._answers = run is not None
        self._kept: list[dict[str, Any]] = []

    def __getattr__(self, name: str) -> Any:
        if name not in _LOGGED:
            raise AttributeError(name)
        return lambda *args: self._log(name, list(args))

    def log_metrics(self, metrics: Mapping[str, float]) -> None:
        """See ``TrackedRun.log_metrics``."""
        self.log_series([(0, metrics)])

    @contextmanager
    def system_metrics(self) -> Iterator[None]:
        """MLflow's ``system/...`` metrics of this machine until the block ends, while the server answers.

        Nothing is logged without psutil, or if MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING is false.
        """
        from mlflow.environment_variables import MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING as WANTED

        monitor = None
        if self._run and (WANTED.get() or not WANTED.is_set()):
            with suppress(ImportError):
                from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

                uri = self._run.client.tracking_uri
                monitor = SystemMetricsMonitor(self._run.id, resume_logging=True, tracking_uri=uri)
                monitor.start()
        try:
            yield
        finally:
            if monitor:
                monitor.finish()

    def _log(self, what: str, args: list[Any]) -> None:
        from mlflow.exceptions import MlflowException

        if what == "log_series":
            args.append(time.time())
        if self._answers and self._run:
            try:
                getattr(self._run, what)(*args)
                return
            except MlflowException as error:
                if not is_of_the_store(error):
                    raise
                self._answers = False
                _warn(unusable(self._run.client.tracking_uri, error))
        if what == "log_artifact":
            args[0] = Path(args[0]).name  # relative to the model's folder, which may move
        self._kept.append({"do": what, "given": args})

    def end(self, status: str) -> None:
        """Ends the run, if the server answers."""
        from mlflow.exceptions import MlflowException

        if self._run:
            try:
                self._run.client.set_terminated(self._run.id, status)
            except MlflowException as error:
                if not is_of_the_store(error):
                    raise
                self._answers = False

    def undelivered(self) -> str:
        """The buffered logs as JSON; empty if the server has everything."""
        if self._answers and not self._kept:
            return ""
        return json.dumps(
            {**self._which, "mlflow_run": self._run.id if self._run else "", "log": self._kept}, indent=1, default=str
        )


# What steps log to.
Tracked = TrackedRun | KeptRun


@contextmanager
def kept_run(experiment: str, run_id: str, title: str, model: Path, uri: str = "") -> Iterator[KeptRun]:
    """Like ``components.tracking.tracked_run``, for a training; survives an unavailable server.

    Args:
        experiment: name of the experiment.
        run_id: of the pipeline run.
        title: of a new run.
        model: the output folder; undelivered logs are written beside it, and a later step delivers them.
        uri: of the output, if in object storage.

    Raises:
        KfrecError: the server refuses this account, or is not an MLflow server.
    """
    which = {"experiment": experiment, "run_id": run_id, "title": title}
    opened: TrackedRun | None = None
    try:
        opened = open_run(**which)
    except Unreachable as error:
        _warn(error)
    run = KeptRun(opened, which)
    try:
        yield run
    except BaseException as error:
        run.end("KILLED" if isinstance(error, (KeyboardInterrupt, SystemExit)) else "FAILED")
        raise
    run.end(_FINISHED)
    text = run.undelivered()
    if text and uri:
        write_remote(uri, _NAME, text)
    elif text:
        _beside(model.absolute()).write_text(text)


def deliver_kept(model: Artifact) -> None:
    """Delivers the buffered logs of the training of ``model``, then deletes the buffer.

    Raises:
        KfrecError: the server does not answer.
    """
    from mlflow.exceptions import MlflowException

    text = _kept(model.path, model.data_uri)
    if not text:
        return
    where = open_store(model.data_uri).url(_NAME) if model.data_uri else str(_beside(model.path))
    wrong = KfrecError(f"{where}: not what a training keeps for MLflow; delete it")
    try:
        body = json.loads(text)
        which = {name: str(body[name]) for name in ("experiment", "run_id", "title")}
        log = [(str(entry["do"]), list(entry["given"])) for entry in body["log"]]
        opened = str(body["mlflow_run"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise wrong from None
    if not {do for do, _ in log} <= set(_LOGGED):
        raise wrong
    run = open_run(**which, opened=opened)
    try:
        for do, args in log:
            if do == "log_artifact":
                args[0] = model.path / Path(args[0]).name
                if not args[0].is_file():
                    continue  # not fetched by this step; the model has it
            getattr(run, do)(*args)
        run.client.set_terminated(run.id, _FINISHED)
    except (IndexError, TypeError, ValueError, AttributeError):
        raise wrong from None
    except MlflowException as error:
        if is_of_the_store(error):
            raise unusable(run.client.tracking_uri, error) from error
        raise
    _beside(model.path).unlink(missing_ok=True)
    if model.data_uri:
        open_store(model.data_uri).remove(_NAME)
    print("MLflow has got what the training could not log while it was away", flush=True)


def _warn(error: KfrecError) -> None:
    print(f"{error}; the training continues, and the next step logs what it measures", file=sys.stderr, flush=True)


def _beside(model: Path) -> Path:
    return model.with_name(f".{model.name}{_NAME}")


def _kept(model: Path, uri: str) -> str:
    if _beside(model).is_file():
        return _beside(model).read_text()
    return (read_remote(uri, _NAME) or b"").decode() if uri else ""
