"""A training goes on while MLflow is away, and what it logged arrives later."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from components.artifacts import Artifact, open_artifact, publishing
from components.artifacts.remote import open_remote, publish_remote
from components.errors import KfrecError
from components.tracking import Tracked, deliver_kept, kept_run
from tests.fakes.object_stores import BUCKET
from tests.waiting import wait_for

_AWAY = "http://127.0.0.1:9"
_WHICH = {"experiment": "kept", "title": "a training"}


@pytest.fixture(autouse=True)
def one_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")


@pytest.fixture
def model(tmp_path: Path) -> Artifact:
    with publishing(tmp_path / "model", step="train") as staging:
        (staging.path / "log.json").write_text("DLLL {}")
    return open_artifact(tmp_path / "model")


def log_everything(run: Tracked, model: Artifact) -> None:
    run.log_parameters({"epochs": 2, "name": "a"})
    run.set_tags({"data.tfrecord.digest": "abc"})
    run.log_inputs([{"name": "d train", "digest": "1", "source_type": "local", "source": "{}"}], ["training"])
    run.log_series([(1, {"loss": 0.7}), (2, {"loss": 0.5})])
    run.log_metrics({"test_auc": 0.8})
    run.log_artifact(model.path / "log.json", "training")


def require_everything(store: str, run_id: str) -> Any:
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("kept")
    (run,) = client.search_runs([experiment.experiment_id], f"tags.`kfrec.pipeline_run` = '{run_id}'")
    assert run.data.params == {"epochs": "2", "name": "a"} and run.info.status == "FINISHED"
    assert run.data.metrics == {"loss": 0.5, "test_auc": 0.8} and run.data.tags["data.tfrecord.digest"] == "abc"
    assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")] == [(1, 0.7), (2, 0.5)]
    assert [item.dataset.name for item in run.inputs.dataset_inputs] == ["d train"]
    assert [item.path for item in client.list_artifacts(run.info.run_id, "training")] == ["training/log.json"]
    return run


def test_a_server_that_is_away_from_the_start(
    model: Artifact, store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", _AWAY)
    with kept_run(**_WHICH, run_id="start", model=model.path) as run:
        log_everything(run, model)
    assert "the training continues" in capsys.readouterr().err
    with pytest.raises(KfrecError, match="no answer after several tries"):
        deliver_kept(model)  # still away: nothing is lost
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    deliver_kept(model)
    run_ = require_everything(store, "start")
    assert run_.info.run_name.startswith("a training ")
    assert [path.name for path in model.path.parent.iterdir()] == ["model"]
    deliver_kept(model)  # nothing is left to deliver


@pytest.mark.parametrize("calls", [0, 2, 5])
def test_a_server_that_goes_away_in_the_middle(
    calls: int, model: Artifact, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers so many requests, and then no more."""
    gone = MlflowException(f"API request to {_AWAY}/x failed with exception Max retries exceeded")
    left = [None] * calls

    def answering(real: Any) -> Any:
        def answer(*given: Any, **named: Any) -> Any:
            if not left:
                raise gone
            left.pop()
            return real(*given, **named)

        return answer

    began = int(time.time() * 1000)
    with kept_run(**_WHICH, run_id=f"middle {calls}", model=model.path) as run:
        with monkeypatch.context() as patch:
            for name in ("log_batch", "log_inputs", "log_artifact", "set_terminated"):
                patch.setattr(MlflowClient, name, answering(getattr(MlflowClient, name)))
            log_everything(run, model)
        ended = int(time.time() * 1000)
    deliver_kept(model)
    run_ = require_everything(store, f"middle {calls}")
    points = MlflowClient(store).get_metric_history(run_.info.run_id, "loss")
    assert all(began <= point.timestamp <= ended for point in points)


def test_a_server_that_is_away_at_the_end(model: Artifact, store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = MlflowException(f"API request to {_AWAY}/x failed with exception Max retries exceeded")
    with monkeypatch.context() as patch, kept_run(**_WHICH, run_id="end", model=model.path) as run:
        log_everything(run, model)
        patch.setattr(MlflowClient, "set_terminated", Mock(side_effect=gone))
    deliver_kept(model)
    require_everything(store, "end")


def test_what_is_kept_beside_a_model_in_object_storage(
    model: Artifact, store: str, gcs_bucket: object, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uri = f"gs://{BUCKET}/model"
    publish_remote(model.path, uri)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", _AWAY)
    with kept_run(**_WHICH, run_id="storage", model=Path(), uri=uri) as run:
        log_everything(run, model)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    there = open_remote(uri)
    deliver_kept(dataclasses.replace(there, path=model.path, data_uri=uri))
    require_everything(store, "storage")
    publish_remote(model.path, uri)  # the place is still the step's own


def test_a_training_that_fails_keeps_its_own_error(model: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", _AWAY)
    with pytest.raises(KfrecError, match="the loss is nan"), kept_run(**_WHICH, run_id="", model=model.path):
        raise KfrecError("the loss is nan")


@pytest.mark.parametrize(
    "log",
    [
        [{"do": "client", "given": []}],
        [{"do": "log_artifact", "given": []}],
        [{"do": "log_series", "given": ["x"]}],
        [{"do": "set_tags"}],
        "everything",
    ],
)
def test_what_no_training_kept_is_one_line(log: Any, model: Artifact, store: str) -> None:
    beside = model.path.with_name(".model_tracking.json")
    beside.write_text(json.dumps({"experiment": "kept", "run_id": "junk", "title": "t", "mlflow_run": "", "log": log}))
    with pytest.raises(KfrecError, match=r"\.model_tracking\.json: not what a training keeps for MLflow; delete it"):
        deliver_kept(model)


def test_only_files_of_the_model_are_delivered(model: Artifact, store: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s")
    beside = model.path.with_name(".model_tracking.json")
    log = [{"do": "log_artifact", "given": [str(tmp_path / "secret.txt"), "training"]}]
    beside.write_text(json.dumps({"experiment": "kept", "run_id": "path", "title": "t", "mlflow_run": "", "log": log}))
    deliver_kept(model)
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("kept")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], "tags.`kfrec.pipeline_run` = 'path'")
    assert client.list_artifacts(run.info.run_id) == []


@pytest.mark.parametrize(("wanted", "logged"), [("true", True), ("false", False)])
def test_system_metrics_are_mlflows_and_can_be_switched_off(
    wanted: str, logged: bool, model: Artifact, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", wanted)
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    client = MlflowClient(store)

    def metrics() -> set[str]:
        (run,) = client.search_runs([client.get_experiment_by_name(f"system {wanted}").experiment_id])
        return set(run.data.metrics)

    with (
        kept_run(f"system {wanted}", "", "a training", model.path) as run,
        run.system_metrics(),
    ):
        run.log_metrics({"step": 1.0})
        wait_for(lambda: metrics() - {"step"} or not logged)
    assert ("system/cpu_utilization_percentage" in metrics()) == logged
