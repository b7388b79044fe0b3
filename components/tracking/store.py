"""The tracking store: MLFLOW_TRACKING_URI, or an SQLite database with artifacts beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from components.errors import KfrecError
from components.tracking.database import prepare_database, quieten
from components.tracking.failures import unusable

if TYPE_CHECKING:
    from mlflow import MlflowClient

DATABASE = Path("runs/mlflow.db")
_SQLITE = "sqlite:///"
_DATABASES = ("postgresql", "mysql", "mssql")

# By default mlflow retries a dead server for several minutes; a step should report it within one.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # mlflow would mistake a uv.lock in the working directory for the model's requirements.
    "MLFLOW_UV_AUTO_DETECT": "false",
    # Artifacts pass through the server: the store behind it may not be reachable from here, which mlflow waits for.
    "MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "false",
    "MLFLOW_ENABLE_PROXY_MULTIPART_UPLOAD": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}


def tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, or the SQLite database runs/mlflow.db under the working directory; paths made absolute."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    if not uri:
        return f"{_SQLITE}{DATABASE.absolute()}"
    database = database_of(uri)
    return f"{_SQLITE}{database}" if database else uri


def prepare() -> None:
    """Prepares the store before hours of work: creates a database, or checks a server.

    Raises:
        KfrecError: the store cannot be used.
    """
    if database_of(tracking_uri()):
        _prepare_databases()
        return
    from mlflow.exceptions import MlflowException

    client = connect()
    try:
        client.search_experiments(max_results=1)
    except (MlflowException, *missing()) as error:
        raise unusable(client.tracking_uri, error) from error


def _ask_database(uri: str) -> None:
    """Connects once to a database server; mlflow would retry for two minutes.

    Raises:
        KfrecError: it does not answer, refuses, or its driver is missing.
    """
    if not uri.startswith(_DATABASES):
        return
    from sqlalchemy import create_engine

    try:
        with create_engine(uri).connect():
            return
    except missing() as error:
        raise unusable(uri, error) from error


def connect() -> MlflowClient:
    """A quiet client of ``tracking_uri``.

    Raises:
        KfrecError: the store cannot be opened.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    _prepare_databases()
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    quieten()
    uri = tracking_uri()
    _ask_database(uri)
    try:
        return MlflowClient(tracking_uri=uri, registry_uri=os.environ.get("MLFLOW_REGISTRY_URI") or uri)
    except (MlflowException, *missing()) as error:
        raise unusable(uri, error) from error


def _prepare_databases() -> None:
    for uri in (tracking_uri(), os.environ.get("MLFLOW_REGISTRY_URI", "")):
        if database := database_of(uri):
            prepare_database(database)


def missing() -> tuple[type[Exception], type[Exception]]:
    """The exceptions of a missing database or driver."""
    from sqlalchemy.exc import SQLAlchemyError

    return SQLAlchemyError, ModuleNotFoundError


def experiment_id(client: MlflowClient, name: str) -> str:
    """Finds or creates an experiment.

    With SQLite, artifacts go beside the database; mlflow's default is ./mlruns in the first step's working directory.

    Raises:
        KfrecError: an experiment of this name was deleted.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return client.create_experiment(name, artifact_location=_artifact_location(client.tracking_uri, name))
        except MlflowException as error:
            # Another step may have created it concurrently.
            experiment = client.get_experiment_by_name(name)
            if error.error_code != "RESOURCE_ALREADY_EXISTS" or experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        raise KfrecError(
            f"experiment {name} at {client.tracking_uri} is deleted; restore it with "
            f"`mlflow experiments restore -x {experiment.experiment_id}` or give another experiment"
        )
    return str(experiment.experiment_id)


def database_of(uri: str) -> Path | None:
    """The file of an SQLite store, None for any other store."""
    path = uri.removeprefix(_SQLITE)
    return Path(path).absolute() if path != uri and path not in ("", ":memory:") else None


def _artifact_location(uri: str, experiment: str) -> str | None:
    database = database_of(uri)
    return (database.parent / "mlartifacts" / quote(experiment, safe="")).as_uri() if database else None
