"""Registration over the wire: a real ``mlflow server`` with its registry and its artifact proxy."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
import requests
from mlflow import MlflowClient

from tests.fakes.ports import free_port
from tests.fakes.small_shop import make_data
from tests.register.test_step import Shop, ignorant, quality

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder, port = tmp_path_factory.mktemp("server"), free_port()
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"),
        *("--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    uri = f"http://127.0.0.1:{port}"
    try:
        _wait(uri, process, folder / "log")
        yield uri
    finally:
        os.killpg(process.pid, 15)
        process.wait(30)


def _wait(uri: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(240):
        assert process.poll() is None, log.read_text()
        try:
            if requests.get(f"{uri}/health", timeout=2).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.5)
    pytest.fail(f"the server did not start in two minutes:\n{log.read_text()}")


def test_models_are_tracked_registered_and_judged_through_a_server(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    shop = Shop(tmp_path, make_data(tmp_path / "tfrecord", rows=1500))
    for name, belief in (("fair", ignorant), ("good", quality)):
        shop.model(name, belief)
    first = shop.register("over-the-wire", "fair", auc_floor=0.3)
    second = shop.register("over-the-wire", "good")
    assert (first["version"], first["alias"]) == (1, "champion")
    # To judge the second, the first was fetched back from the server and scored on the same test set.
    assert (second["version"], second["alias"], second["champion_version_before"]) == (2, "champion", 1)
    assert second["confidence_interval"][0] > 0 and second["auc"] > second["champion_auc"]
    client = MlflowClient(server)
    assert client.get_model_version_by_alias("over-the-wire", "champion").version in (2, "2")
    assert client.get_run(second["run_id"]).data.tags["kfrec.alias"] == "champion"
    champion = mlflow.pyfunc.load_model("models:/over-the-wire@champion")
    assert champion.metadata.signature is not None
