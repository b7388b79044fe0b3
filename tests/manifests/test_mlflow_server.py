"""The MLflow server of the manifests on a real PostgreSQL: its commands, its environment, the script's secrets."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy
import yaml
from mlflow import MlflowClient

from images.build import load_images
from tests.fakes.handler import free_port
from tests.fakes.mlflow_server import running
from tests.manifests.test_create_secrets import create, value

Json = dict[str, Any]
BASE = Path(__file__).parents[2] / "manifests" / "base"


def pod() -> Json:
    """The specification of the server's pod."""
    objects = yaml.safe_load_all((BASE / "mlflow.yaml").read_text())
    (deployment,) = [body for body in objects if body["kind"] == "Deployment"]
    return deployment["spec"]["template"]["spec"]


def environment_of(container: Json, secrets: Path, config: Mapping[str, str]) -> dict[str, str]:
    """What the kubelet gives to a container, beside the image's own."""
    given: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            given |= config
        elif (folder := secrets / source["secretRef"]["name"]).is_dir():
            given |= {file.name: file.read_text() for file in folder.iterdir()}
    for entry in container["env"]:
        source = entry.get("valueFrom", {})
        if reference := source.get("secretKeyRef"):
            given[entry["name"]] = value(secrets, reference["name"], reference["key"])
        elif "fieldRef" in source:
            given[entry["name"]] = "a-namespace"
        else:
            given[entry["name"]] = entry.get("value", "")
    return given


def command_of(container: Json, environment: Mapping[str, str]) -> list[str]:
    """What the kubelet runs: $(NAME) is replaced in the command, and a command is looked up in the image's PATH."""
    words = [*container["command"], *container.get("args", ())]
    return [re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], word) for word in words]


class Server:
    """The Deployment's pod, here.

    Args:
        folder: where artifacts are kept.
        secrets: as the script made them.
    """

    def __init__(self, folder: Path, secrets: Path) -> None:
        self._folder, self._secrets, self._port = folder, secrets, free_port()
        config = {"MLFLOW_ARTIFACTS_DESTINATION": str(folder / "artifacts"), "MLFLOW_TRACKING_URI": "http://nowhere"}
        plain = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
        path = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self._config, self._plain = config, plain | path
        self.uri = f"http://localhost:{self._port}"

    def prepare(self) -> str:
        """Runs what the pod runs before its server, and returns what that said."""
        said = ""
        for container in pod()["initContainers"]:
            environment = environment_of(container, self._secrets, self._config) | self._mounted(container)
            command = command_of(container, environment)
            done = subprocess.run(command, env=self._plain | environment, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            said += done.stdout
        return said

    def _mounted(self, container: Json) -> dict[str, str]:
        accounts = str(self._secrets / "kfrec-mlflow-server" / "basic_auth.ini")
        named = any(entry["name"] == "MLFLOW_AUTH_CONFIG_PATH" for entry in container["env"])
        return {"MLFLOW_AUTH_CONFIG_PATH": accounts} if named else {}

    @contextmanager
    def running(self) -> Iterator[None]:
        (container,) = pod()["containers"]
        environment = environment_of(container, self._secrets, self._config) | self._mounted(container)
        command = command_of(container, environment)
        command[command.index("--port") + 1] = str(self._port)
        with running(command, self.uri, self._folder / "log", self._plain | environment, self._folder):
            yield


def register(client: MlflowClient) -> None:
    """A run with an artifact, and a version of a model with an alias."""
    run = client.create_run(client.create_experiment("of the server")).info
    client.log_metric(run.run_id, "test_auc", 0.83)
    client.log_text(run.run_id, "weights", "model/weights.txt")
    client.create_registered_model("ctr")
    version = client.create_model_version("ctr", f"{run.artifact_uri}/model", run.run_id)
    client.set_registered_model_alias("ctr", "champion", version.version)


def found(client: MlflowClient, folder: Path) -> tuple[int, float, str]:
    """What became of that: number of the version, metric, and what the artifact says."""
    champion = client.get_model_version_by_alias("ctr", "champion")
    assert champion.run_id is not None
    weights = client.download_artifacts(champion.run_id, "model/weights.txt", str(folder))
    metric = client.get_run(champion.run_id).data.metrics["test_auc"]
    return int(champion.version), metric, Path(weights).read_text()


@pytest.mark.parametrize("given", ["", "postgresql://", "postgres://", "postgresql+psycopg://"])
def test_the_database_uri_names_the_driver_that_the_image_installs(secrets: Path, given: str) -> None:
    """What plain postgresql:// means changed with SQLAlchemy 2.1."""
    chosen = {"DATABASE_URI": f"{given}mlflow:secret@db.example.org/mlflow"} if given else {}
    assert create(secrets, **chosen).returncode == 0
    uri = sqlalchemy.make_url(value(secrets, "kfrec-mlflow-server", "MLFLOW_BACKEND_STORE_URI"))
    assert uri.drivername == "postgresql+psycopg" and uri.get_dialect().driver in load_images()["cpu"].imports


def test_another_database_keeps_its_uri(secrets: Path) -> None:
    assert create(secrets, DATABASE_URI="mysql+pymysql://mlflow@db/mlflow").returncode == 0
    assert value(secrets, "kfrec-mlflow-server", "MLFLOW_BACKEND_STORE_URI") == "mysql+pymysql://mlflow@db/mlflow"


@pytest.mark.slow
def test_the_server_keeps_accounts_runs_and_models_in_postgresql(
    postgres: str, secrets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert create(secrets, DATABASE_URI=postgres).returncode == 0
    database = sqlalchemy.create_engine(value(secrets, "kfrec-mlflow-server", "MLFLOW_BACKEND_STORE_URI"))
    with database.connect() as connection:
        assert connection.dialect.driver == "psycopg" and connection.scalar(sqlalchemy.text("select 1")) == 1
    server = Server(tmp_path, secrets)
    for name in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, value(secrets, "kfrec-mlflow", name))
    client = MlflowClient(tracking_uri=server.uri, registry_uri=server.uri)
    search = f"{server.uri}/api/2.0/mlflow/registered-models/search"

    assert "made account kfrec" in server.prepare()
    assert {"alembic_version", "runs", "model_versions"} <= set(sqlalchemy.inspect(database).get_table_names())
    with server.running():
        register(client)
        assert found(client, tmp_path) == (1, 0.83, "weights")
        for account in (None, ("admin", "password1234")):
            assert requests.get(search, timeout=60, auth=account).status_code == 401
        # The next pod prepares beside it, as in a rolling update: there is nothing to do, and nothing is lost.
        assert "account kfrec is as it was" in server.prepare()
        assert found(client, tmp_path) == (1, 0.83, "weights")
    assert {"alembic_version_auth", "users"} <= set(sqlalchemy.inspect(database).get_table_names())
    database.dispose()
