"""Where runs are tracked: any MLFLOW_TRACKING_URI, or an SQLite database beside its artifacts."""

from __future__ import annotations

import logging
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from components.errors import KfrecError

if TYPE_CHECKING:
    from mlflow import MlflowClient

DATABASE = Path("runs/mlflow.db")
_SQLITE = "sqlite:///"

# mlflow retries a dead server for several minutes by default; a step should say so within one.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "60",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # A uv.lock in the working directory would be taken for the model's own requirements.
    "MLFLOW_UV_AUTO_DETECT": "false",
    "GIT_PYTHON_REFRESH": "quiet",
}


def tracking_uri() -> str:
    """MLFLOW_TRACKING_URI, or the SQLite database runs/mlflow.db under the working directory; paths made absolute."""
    given = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
    if not given:
        return f"{_SQLITE}{DATABASE.absolute()}"
    database = _database(given)
    return f"{_SQLITE}{database}" if database else given


def connect() -> MlflowClient:
    """A quiet client of :func:`tracking_uri`.

    Raises:
        KfrecError: the store cannot be opened.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    uri = tracking_uri()
    database = _database(uri)
    if database:
        database.parent.mkdir(parents=True, exist_ok=True)
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    for chatty in ("mlflow", "alembic"):
        logging.getLogger(chatty).setLevel(logging.ERROR)
    try:
        return MlflowClient(tracking_uri=uri, registry_uri=os.environ.get("MLFLOW_REGISTRY_URI") or uri)
    except (MlflowException, SQLAlchemyError) as error:
        raise unusable(uri, error) from error


def experiment_id(client: MlflowClient, name: str) -> str:
    """Finds or creates an experiment.

    Artifacts of an experiment on SQLite go beside the database: mlflow's own default is ./mlruns of whichever
    directory the first step happened to run in.

    Raises:
        KfrecError: an experiment of this name was deleted.
    """
    from mlflow.exceptions import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            return client.create_experiment(name, artifact_location=_artifact_location(client.tracking_uri, name))
        except MlflowException as error:
            # Another step may have created it in the meantime.
            experiment = client.get_experiment_by_name(name)
            if error.error_code != "RESOURCE_ALREADY_EXISTS" or experiment is None:
                raise
    if experiment.lifecycle_stage == "deleted":
        raise KfrecError(
            f"experiment {name} at {client.tracking_uri} is deleted; restore it with "
            f"`mlflow experiments restore -x {experiment.experiment_id}` or give another experiment"
        )
    return str(experiment.experiment_id)


def unusable(uri: str, error: Any) -> KfrecError:
    """The line for a store or server that does not answer."""
    reason = " ".join(str(error).split())
    if refused := re.search(r"failed with error code (401|403)", reason):
        return KfrecError(
            f"MLflow at {uri} refused this account ({refused[1]}); set MLFLOW_TRACKING_USERNAME and "
            "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN, to one that may write"
        )
    if "Max retries exceeded" in reason:
        reason = "no answer after several tries"
    return KfrecError(
        f"MLflow at {uri} cannot be used ({reason[:200]}); start it, or set MLFLOW_TRACKING_URI to one that is there"
    )


def is_unreachable(error: Exception) -> bool:
    """Whether an MLflow error means that the server did not answer, rather than that it refused."""
    return "API request to" in str(error) and "failed with exception" in str(error)


def _database(uri: str) -> Path | None:
    path = uri.removeprefix(_SQLITE)
    return Path(path).absolute() if path != uri and path not in ("", ":memory:") else None


def _artifact_location(uri: str, experiment: str) -> str | None:
    database = _database(uri)
    return (database.parent / "mlartifacts" / quote(experiment, safe="")).as_uri() if database else None
