"""A model name whose champion another task evaluates is refused before any work, wherever the registry answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from components.errors import KfrecError
from components.find.step import run as find
from components.steps.catalog import STEPS
from components.tracking.champion import require_task_early
from components.tracking.store import connect
from components.train.step import run as train
from pipelines.defaults import Pipeline
from pipelines.local import run
from tests.fakes.small_shop import make_data

NAME = "in seconds"
REFUSED = (
    f"parameter registered_model='{NAME}': its champion, version 1 at .* is of the task seconds and this model of "
)


def make_champion(client: MlflowClient) -> None:
    run = client.create_run(client.create_experiment(f"of {NAME}"))
    client.create_registered_model(NAME)
    client.create_model_version(NAME, str(run.info.artifact_uri), run.info.run_id, tags={"kfrec.task": "seconds"})
    client.set_registered_model_alias(NAME, "champion", "1")


def make_logs(folder: Path) -> Path:
    """A prefix with one data version."""
    (folder / "v1").mkdir(parents=True)
    for name in ("reviews_a.json", "meta_a.json"):
        (folder / "v1" / name).write_text("{}\n")
    return folder


@pytest.fixture
def champion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a task of another package, in a store of its own; returns the folder of runs."""
    workdir = tmp_path / "runs"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{workdir / 'mlflow.db'}")
    make_champion(connect())
    return workdir


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["training", "retraining"])
def test_a_run_is_refused_before_its_folder_is_made(champion: Path, tmp_path: Path, kind: str) -> None:
    given: dict[str, Any] = {"registered_model": NAME}
    if kind == "retraining":
        given["data_prefix"] = str(make_logs(tmp_path / "logs"))
    before = sorted(champion.iterdir())
    with pytest.raises(KfrecError, match=REFUSED + "the task click, so they cannot be compared; give registered_model"):
        run(Pipeline(kind, "din"), given, champion)
    assert sorted(champion.iterdir()) == before


@pytest.mark.slow
def test_the_find_step_refuses(champion: Path, tmp_path: Path) -> None:
    logs = make_logs(tmp_path / "logs")
    parameters = STEPS["find"].of(data_prefix=str(logs), registered_model=NAME, task="ranking")
    with pytest.raises(KfrecError, match=REFUSED + "the task ranking"):
        find(parameters, champion=tmp_path / "champion")
    assert not (tmp_path / "champion").exists()


@pytest.mark.slow
def test_the_train_step_refuses_before_it_trains(champion: Path, tmp_path: Path) -> None:
    data = make_data(tmp_path / "tfrecord", rows=20)
    parameters = STEPS["train"].of(model_type="din", registered_model=NAME)
    with pytest.raises(KfrecError, match=REFUSED + "the task click"):
        train(parameters, tfrecord=data, model=tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.slow
def test_the_same_task_and_an_unknown_one_are_not_refused(champion: Path) -> None:
    require_task_early(NAME, "seconds")
    require_task_early("never registered", "click")
    connect().delete_model_version_tag(NAME, "1", "kfrec.task")
    require_task_early(NAME, "click")


def test_a_registry_that_does_not_answer_is_no_reason_to_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    require_task_early(NAME, "click")


@pytest.mark.parametrize("name", ["team/ctr", "ctr:1", "shop's"])
def test_a_name_that_mlflow_refuses_is_refused_before_any_work(name: str) -> None:
    with pytest.raises(KfrecError, match=r"registered_model=.*: MLflow's names have no / and no :"):
        require_task_early(name, "click")
