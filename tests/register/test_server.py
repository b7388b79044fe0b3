"""Tracking, registry and gate through a real MLflow server that asks who one is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException, RestException

from components.steps.command import command
from components.tracking.champion import champion_of, using_store_of
from components.tracking.store import connect
from pipelines.cli import main
from tests.fakes.mlflow_server import OLDER, MlflowServer
from tests.fakes.small_shop import ignorant, make_data, make_model, quality
from tests.tracking.test_task_of_the_champion import NAME, make_champion

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data, a fair model and a good one."""
    folder = tmp_path_factory.mktemp("shop")
    data = make_data(folder / "tfrecord", rows=1500)
    make_model(folder / "fair", data, belief=ignorant)
    make_model(folder / "good", data, belief=quality)
    return folder


@pytest.fixture
def log_in(mlflow_server: MlflowServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Uses the server with an account, by default that of the steps."""
    monkeypatch.delenv("MLFLOW_REGISTRY_URI", raising=False)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)

    def log_in(account: Mapping[str, str] = mlflow_server.environment, **changed: str) -> None:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
            monkeypatch.setenv(name, changed.get(name, account[name]))

    return log_in


def registration(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "registration.json").read_text())


def test_models_are_tracked_registered_and_judged_through_a_server(
    log_in: Callable[..., None], shop: Path, tmp_path: Path
) -> None:
    log_in()
    judged = {}
    for name, floor in (("fair", 0.3), ("good", 0.6)):
        inputs = [f"--tfrecord={shop / 'tfrecord'}", f"--model={shop / name}", "--experiment=wire", f"--run_id={name}"]
        inputs.append(f"--evaluation={tmp_path / name}-evaluation")
        assert command("evaluate", inputs) == 0
        output = tmp_path / f"{name}-registration"
        gate = [f"--registration={output}", f"--auc_floor={floor}", "--registered_model=over-the-wire"]
        gate.append("--require_baseline=false")
        assert command("register", [*inputs, *gate]) == 0
        judged[name] = registration(output)

    first, second = judged["fair"], judged["good"]
    assert (first["version"], first["alias"]) == (1, "champion")
    # To judge the second, the first was fetched back from the server and scored on the same test set.
    assert (second["version"], second["alias"], second["champion_version_before"]) == (2, "champion", 1)
    assert second["confidence_interval"][0] > 0 and second["score"] > second["champion_score"]
    client = MlflowClient()
    champion = client.get_model_version_by_alias("over-the-wire", "champion")
    with using_store_of(client):
        model = mlflow.pyfunc.load_model("models:/over-the-wire@champion")
    assert int(champion.version) == 2 and model.metadata.signature.inputs.input_names()
    assert champion.run_id is not None
    run = client.get_run(champion.run_id)
    assert run.data.tags["kfrec.alias"] == "champion"
    assert run.data.metrics["test_auc"] == pytest.approx(second["score"])


def status_of(call: Callable[[], Any]) -> int | str | None:
    """The HTTP status that refuses a call; None where it is not refused."""
    try:
        call()
    except RestException as error:
        return error.get_http_status_code()
    except MlflowException as error:
        return 403 if "403" in str(error) else str(error)
    return None


def test_a_name_that_nobody_has_registered_has_no_champion(
    log_in: Callable[..., None], mlflow_server: MlflowServer
) -> None:
    for account in (mlflow_server.environment, mlflow_server.admin):
        log_in(account)
        assert champion_of(connect(), "the first night of this name") is None
    log_in(MLFLOW_TRACKING_PASSWORD="not the password")
    with pytest.raises(MlflowException):
        champion_of(connect(), "the first night of this name")


def test_the_account_of_the_steps_may_do_what_they_need_and_no_more(
    log_in: Callable[..., None], mlflow_server: MlflowServer
) -> None:
    others = "others"
    client = MlflowClient(mlflow_server.uri, mlflow_server.uri)
    log_in(mlflow_server.admin)
    run = client.create_run(client.create_experiment(others))
    client.create_registered_model(others)
    client.create_model_version(others, str(run.info.artifact_uri), run.info.run_id)

    # It goes on with what was there before, and reads what others own.
    log_in()
    run = client.create_run(client.get_experiment_by_name(OLDER).experiment_id)
    client.log_metric(run.info.run_id, "auc", 0.5)
    version = client.create_model_version(OLDER, str(run.info.artifact_uri), run.info.run_id)
    client.set_registered_model_alias(OLDER, "challenger", version.version)
    client.delete_registered_model_alias(OLDER, "challenger")
    their = client.get_experiment_by_name(others)
    assert their.name == others

    from mlflow.server import get_app_client

    accounts = get_app_client("basic-auth", mlflow_server.uri)
    refused: dict[str, Callable[[], Any]] = {
        "write": lambda: client.create_run(their.experiment_id),
        "delete": lambda: client.delete_experiment(their.experiment_id),
        "their champion": lambda: client.set_registered_model_alias(others, "champion", "1"),
        "accounts": lambda: accounts.create_user("another", "a long password"),
        "admin": lambda: accounts.update_user_admin("kfrec", True),
    }
    assert {name: status_of(call) for name, call in refused.items()} == dict.fromkeys(refused, 403)


def test_a_wrong_password_is_one_line_and_leaves_nothing(
    log_in: Callable[..., None], shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log_in(MLFLOW_TRACKING_PASSWORD="wrong")
    evaluation = tmp_path / "evaluation"
    folders = [f"--tfrecord={shop / 'tfrecord'}", f"--model={shop / 'good'}", f"--evaluation={evaluation}"]
    assert command("evaluate", folders) == 2 and not evaluation.exists()
    told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(told) == 1 and "refused this account (401); set MLFLOW_TRACKING_USERNAME" in told[0]


def test_a_submission_of_a_model_of_another_task_is_refused(
    log_in: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    log_in()
    make_champion(connect())
    # No KFP is asked.
    assert main(["submit", "--model=din", "--endpoint=http://127.0.0.1:9", f"--set=registered_model={NAME}"]) == 2
    assert "is of the task seconds and this model of the task click" in capsys.readouterr().err
