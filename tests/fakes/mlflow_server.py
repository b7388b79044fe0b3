"""A real ``mlflow server`` with its registry, artifact proxy and authentication; one a test session."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tests.fakes.handler import free_port
from tests.waiting import LONGEST

_ADMIN, _PASSWORD = "admin", "only for these tests"  # the account that the server makes at its first start
_STEPS, _THEIRS = "kfrec", "the password of steps"  # the account that manifests/base/mlflow.yaml makes before
OLDER = "older"  # an experiment and a registered model that were there before that account
_WAIT_SECONDS = LONGEST


@dataclass(frozen=True)
class MlflowServer:
    """A running server.

    Attributes:
        uri: its address.
        environment: variables with which a client process uses it as the steps' account.
        admin: the same, as the admin.
    """

    uri: str
    environment: dict[str, str]
    admin: dict[str, str]


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    folder = tmp_path_factory.mktemp("server")
    port = free_port()
    (folder / "auth.ini").write_text(
        f"[mlflow]\ndefault_permission = READ\ndatabase_uri = sqlite:///{folder / 'auth.db'}\n"
        f"admin_username = {_ADMIN}\nadmin_password = {_PASSWORD}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\nauth_cache_ttl_seconds = 60\n"
    )
    store = f"sqlite:///{folder / 'mlflow.db'}"
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", store, "--app-name", "basic-auth"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    account = {"MLFLOW_TRACKING_USERNAME": _STEPS, "MLFLOW_TRACKING_PASSWORD": _THEIRS}
    own = {
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "for the tests",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }  # fmt: skip
    _prepare(folder / "mlflow.db", folder / "auth.ini")
    uri = f"http://127.0.0.1:{port}"
    admin = {"MLFLOW_TRACKING_USERNAME": _ADMIN, "MLFLOW_TRACKING_PASSWORD": _PASSWORD}
    client = plain | {"MLFLOW_TRACKING_URI": uri}
    with running(command, uri, folder / "log", plain | own):
        yield MlflowServer(uri, client | account, client | admin)


def _prepare(database: Path, accounts: Path) -> None:
    """What was there before the server."""
    from mlflow import MlflowClient

    from components.tracking.account import make_account
    from components.tracking.database import prepare_database

    store = f"sqlite:///{database}"
    prepare_database(database)
    client = MlflowClient(store, store)
    client.create_experiment(OLDER)
    client.create_registered_model(OLDER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_AUTH_CONFIG_PATH", str(accounts))
        assert make_account(_STEPS, _THEIRS, store) == f"made account {_STEPS}"


@contextmanager
def running(
    command: Sequence[str], uri: str, log: Path, environment: Mapping[str, str], folder: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a server with MLflow's endpoint of health, which is healthy when the block begins, and ends with it."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, cwd=folder, start_new_session=True
        )
    try:
        _wait_for(uri, process, log)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait(LONGEST)


def _wait_for(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Waits until a server reports that it is healthy; otherwise the test fails with the server's log."""
    started = time.monotonic()
    while time.monotonic() - started < _WAIT_SECONDS:
        assert process.poll() is None, log.read_text()
        try:
            if requests.get(f"{uri}/health", timeout=5).ok:
                return
        except (requests.ConnectionError, requests.Timeout):
            pass
        time.sleep(0.5)
    pytest.fail(f"the server did not start in {_WAIT_SECONDS:.0f} s:\n{log.read_text()}")
