"""The MLflow server of the manifests: migration, accounts, hosts, and a restart on the same database."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests
from mlflow import MlflowClient

from components.tracking.store import connect
from tests.cluster import kubectl as k8s
from tests.cluster.steps import Place
from tests.cluster.suite.conftest import forwarded, secret_of
from tests.waiting import LONGEST

_SEARCH = "/api/2.0/mlflow/experiments/search?max_results=1"


def server_pod(place: Place) -> str:
    selector = "app.kubernetes.io/component=mlflow"
    pods = k8s.listed(place.namespace, "pods", "-l", selector, "--field-selector=status.phase=Running")
    (pod,) = [body for body in pods if "deletionTimestamp" not in body["metadata"]]
    return str(pod["metadata"]["name"])


def restart(place: Place) -> None:
    k8s.kubectl("-n", place.namespace, "rollout", "restart", "deployment/kfrec-mlflow")
    k8s.kubectl("-n", place.namespace, "rollout", "status", "deployment/kfrec-mlflow", f"--timeout={LONGEST:.0f}s")


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


def test_runs_and_models_outlive_a_restart_of_the_server(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in secret_of(place.namespace, "kfrec-mlflow").items():
        monkeypatch.setenv(name, value)
    assert "Running upgrade" in k8s.log(place.namespace, server_pod(place), "-c", "migrate") or "tables" in k8s.log(
        place.namespace, server_pod(place), "-c", "migrate"
    )
    assert "made account kfrec" in k8s.log(place.namespace, server_pod(place), "-c", "account")
    with forwarded(place.namespace, "service/kfrec-mlflow", 5000) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        register(connect())
    restart(place)
    assert "account kfrec is as it was" in k8s.log(place.namespace, server_pod(place), "-c", "account")
    with forwarded(place.namespace, "service/kfrec-mlflow", 5000) as url:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", url)
        client = connect()
        assert found(client, tmp_path) == (1, 0.83, "weights")
        client.delete_registered_model("ctr")


def test_the_server_refuses_wrong_passwords_and_foreign_hosts(place: Place) -> None:
    account = secret_of(place.namespace, "kfrec-mlflow")
    right = (account["MLFLOW_TRACKING_USERNAME"], account["MLFLOW_TRACKING_PASSWORD"])
    with forwarded(place.namespace, "service/kfrec-mlflow", 5000) as url:

        def status(auth: tuple[str, str] | None, **headers: str) -> int:
            return requests.get(f"{url}{_SEARCH}", auth=auth, headers=headers, timeout=60).status_code

        assert status(right) == 200
        assert [status(auth) for auth in (None, (right[0], "wrong"), ("admin", "password1234"))] == [401] * 3
        assert status(right, Host=f"kfrec-mlflow.{place.namespace}.svc:5000") == 200
        assert [status(right, Host=host) for host in ("kfrec-mlflow.example.org:5000", "example.org")] == [403] * 2
