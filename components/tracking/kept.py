"""Buffers a training's logs while the MLflow server is unavailable; the next step delivers them.

A training takes hours, so an unavailable server must not end it. Other steps are short and need the server.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from components.artifacts import Artifact
from components.artifacts.remote import read_remote, write_remote
from components.errors import KfrecError, Unreachable
from components.storage import open_store
from components.tracking.failures import is_of_the_store, unusable
from components.tracking.run import TrackedRun, open_run

_NAME = "_tracking.json"
# Allowlist of buffered methods of :class:`Tracked`: a file in object storage is untrusted input.
_LOGGED = ("log_parameters", "log_series", "set_tags", "log_inputs", "log_artifact")
_FINISHED = "FINISHED"


class Tracked(Protocol):
    """The interface that steps log to; see :class:`TrackedRun`."""

    def age(self) -> int: ...
    def log_parameters(self, parameters: Mapping[str, Any]) -> None: ...
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None: ...
    def log_series(self, series: Sequence[tuple[int, Mapping[str, float]]], at: float | None = None) -> None: ...
    def set_tags(self, tags: Mapping[str, Any]) -> None: ...
    def log_inputs(self, datasets: Sequence[Mapping[str, Any]], context: Sequence[str]) -> None: ...
    def log_artifact(self, path: Path | str, folder: str | None = None) -> None: ...


class KeptRun:
    """A run that buffers its logs while the server is unavailable.

    Args:
        run: the MLflow run; None if it could not be opened.
        which: experiment, run_id and title, for a later :func:`open_run`.
    """

    def __init__(self, run: TrackedRun | None, which: Mapping[str, str]) -> None:
        self._run, self._which, self._began = run, which, time.time()
        self._answers = run is not None
        self._kept: list[dict[str, Any]] = []

    def age(self) -> int:
        return self._run.age() if self._run else int(time.time() - self._began)

    def log_parameters(self, parameters: Mapping[str, Any]) -> None:
        self._log("log_parameters", parameters={name: str(value) for name, value in parameters.items()})

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.log_series([(step or 0, metrics)])

    def log_series(self, series: Sequence[tuple[int, Mapping[str, float]]], at: float | None = None) -> None:
        plain = [(step, {name: float(value) for name, value in group.items()}) for step, group in series]
        self._log("log_series", series=plain, at=at or time.time())

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        self._log("set_tags", tags={name: str(value) for name, value in tags.items()})

    def log_inputs(self, datasets: Sequence[Mapping[str, Any]], context: Sequence[str]) -> None:
        self._log("log_inputs", datasets=list(datasets), context=list(context))

    def log_artifact(self, path: Path | str, folder: str | None = None) -> None:
        self._log("log_artifact", path=str(path), folder=folder)

    def _log(self, what: str, **given: Any) -> None:
        from mlflow.exceptions import MlflowException

        if self._answers and self._run:
            try:
                getattr(self._run, what)(**given)
                return
            except MlflowException as error:
                if not is_of_the_store(error):
                    raise
                self._answers = False
                _warn(unusable(self._run.client.tracking_uri, error))
        if what == "log_artifact":
            given["path"] = Path(given["path"]).name  # relative to the model's folder, which may move
        self._kept.append({"do": what, "given": given})

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
        return json.dumps({**self._which, "mlflow_run": self._run.id if self._run else "", "log": self._kept}, indent=1)


@contextmanager
def kept_run(experiment: str, run_id: str, title: str, model: Path, uri: str = "") -> Iterator[KeptRun]:
    """Like :func:`components.tracking.tracked_run`, for a training; survives an unavailable server.

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
        log = [(str(entry["do"]), dict(entry["given"])) for entry in body["log"]]
        opened = str(body["mlflow_run"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise wrong from None
    if not {do for do, _ in log} <= set(_LOGGED):
        raise wrong
    run = open_run(**which, opened=opened)
    try:
        for do, given in log:
            if do == "log_artifact":
                given["path"] = model.path / Path(given["path"]).name
                if not given["path"].is_file():
                    continue  # not fetched by this step; the model has it
            getattr(run, do)(**given)
        run.client.set_terminated(run.id, _FINISHED)
    except (KeyError, TypeError, ValueError, AttributeError):
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
