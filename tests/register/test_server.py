"""Tracking, registry and gate through a real MLflow server that asks who one is.

The steps run in a process of their own: mlflow keeps the address of its server for as long as a process lives.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.mlflow_server import OLDER, MlflowServer, mlflow_server  # noqa: F401
from tests.fakes.small_shop import make_data, make_model, quality

pytestmark = pytest.mark.slow

# Evaluates and registers two models, then looks at what the server holds.
_RUN = """
import json, sys
import mlflow
from components.steps.command import command

folder = sys.argv[1]
for name, floor in (("fair", 0.3), ("good", 0.6)):
    inputs = [f"--tfrecord={folder}/tfrecord", f"--model={folder}/{name}", "--experiment=wire", f"--run_id={name}"]
    evaluation = f"--evaluation={folder}/{name}-evaluation"
    assert command("evaluate", [*inputs, evaluation]) == 0
    registration = [f"--registration={folder}/{name}-registration", f"--auc_floor={floor}"]
    assert command("register", [*inputs, evaluation, *registration, "--registered_model=over-the-wire"]) == 0
client = mlflow.MlflowClient()
champion = client.get_model_version_by_alias("over-the-wire", "champion")
model = mlflow.pyfunc.load_model("models:/over-the-wire@champion")
run = client.get_run(champion.run_id)
print(json.dumps({"version": int(champion.version), "inputs": model.metadata.signature.inputs.input_names(),
                  "tags": run.data.tags, "metrics": run.data.metrics}))
"""

# What the account of the steps may do beside that: go on with what was there before, not write what others own.
_AS_THE_STEPS = """
import json, sys
import mlflow
from mlflow.exceptions import RestException
from mlflow.server import get_app_client

older, others = sys.argv[1:]
client = mlflow.MlflowClient()
run = client.create_run(client.get_experiment_by_name(older).experiment_id)
client.log_metric(run.info.run_id, "auc", 0.5)
version = client.create_model_version(older, run.info.artifact_uri, run.info.run_id)
client.set_registered_model_alias(older, "challenger", version.version)
client.delete_registered_model_alias(older, "challenger")
their = client.get_experiment_by_name(others)
accounts = get_app_client("basic-auth", mlflow.get_tracking_uri())
refused = {}
for name, call in {
    "write": lambda: client.create_run(their.experiment_id),
    "delete": lambda: client.delete_experiment(their.experiment_id),
    "their champion": lambda: client.set_registered_model_alias(others, "champion", 1),
    "accounts": lambda: accounts.create_user("another", "a long password"),
    "admin": lambda: accounts.update_user_admin("kfrec", True),
}.items():
    try:
        call()
        refused[name] = None
    except RestException as error:
        refused[name] = error.get_http_status_code()
    except mlflow.MlflowException as error:
        refused[name] = 403 if "403" in str(error) else str(error)
print(json.dumps({"reads": their.name, "refused": refused}))
"""
_AS_THE_ADMIN = """
import sys
import mlflow
client = mlflow.MlflowClient()
run = client.create_run(client.create_experiment(sys.argv[1]))
client.create_registered_model(sys.argv[1])
client.create_model_version(sys.argv[1], run.info.artifact_uri, run.info.run_id)
"""


def ignorant(name: str) -> float:
    """Knows the qualities of every second item."""
    return quality(name) if int(name[1:]) % 2 else 0.5


def python(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


def registration(folder: Path, name: str) -> dict[str, Any]:
    return json.loads((folder / f"{name}-registration" / "registration.json").read_text())


def test_models_are_tracked_registered_and_judged_through_a_server(
    mlflow_server: MlflowServer,  # noqa: F811
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "tfrecord", rows=1500)
    make_model(tmp_path / "fair", data, belief=ignorant)
    make_model(tmp_path / "good", data, belief=quality)

    done = python(mlflow_server.environment, "-c", _RUN, str(tmp_path))
    assert done.returncode == 0, done.stderr
    first, second = registration(tmp_path, "fair"), registration(tmp_path, "good")

    assert (first["version"], first["alias"]) == (1, "champion")
    # To judge the second, the first was fetched back from the server and scored on the same test set.
    assert (second["version"], second["alias"], second["champion_version_before"]) == (2, "champion", 1)
    assert second["confidence_interval"][0] > 0 and second["score"] > second["champion_score"]
    champion = json.loads(done.stdout.strip().splitlines()[-1])
    assert champion["version"] == 2 and champion["inputs"]
    assert champion["tags"]["kfrec.alias"] == "champion"
    assert champion["metrics"]["test_auc"] == pytest.approx(second["score"])


def test_the_account_of_the_steps_may_do_what_they_need_and_no_more(
    mlflow_server: MlflowServer,  # noqa: F811
) -> None:
    done = python(mlflow_server.admin, "-c", _AS_THE_ADMIN, "others")
    assert done.returncode == 0, done.stderr
    done = python(mlflow_server.environment, "-c", _AS_THE_STEPS, OLDER, "others")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert told["reads"] == "others"
    refused = dict.fromkeys(("write", "delete", "their champion", "accounts", "admin"), 403)
    assert told["refused"] == refused


def test_a_wrong_password_is_one_line_and_leaves_nothing(
    mlflow_server: MlflowServer,  # noqa: F811
    tmp_path: Path,
) -> None:
    data = make_data(tmp_path / "tfrecord", rows=200)
    make_model(tmp_path / "good", data, belief=quality)
    stranger = mlflow_server.environment | {"MLFLOW_TRACKING_PASSWORD": "wrong"}
    folders = [f"--tfrecord={data}", f"--model={tmp_path / 'good'}", f"--evaluation={tmp_path / 'evaluation'}"]
    refused = python(stranger, "-m", "components.evaluate", *folders)
    assert refused.returncode == 2 and not (tmp_path / "evaluation").exists()
    told = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert len(told) == 1 and "refused this account (401); set MLFLOW_TRACKING_USERNAME" in told[0]
