"""A training is logged while it trains; it goes on while MLflow is away, and the rest is logged at its end."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException

from components.artifacts import open_artifact
from components.errors import KfrecError
from components.lifetime import Stopped
from components.parameters import parameters_of
from components.steps.catalog import STEPS, LaunchParameters, worker_parameters
from components.steps.recorded import recorded
from components.tracking.live import training_run
from components.tracking.run import tracked_run
from components.tracking.trained import complete_training
from components.train.step import run as train
from components.training_log import LOG, TRAINING, points_of, read_log
from tests.train.dataset import write_dataset
from tests.train.in_process import InProcess
from tests.waiting import wait_for

_AWAY = "http://127.0.0.1:9"
_GONE = MlflowException(f"API request to {_AWAY}/x failed with exception Max retries exceeded")
SERIES = ("loss", "samples_per_second", "epoch/train_loss", "epoch/validation_auc")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setattr("components.tracking.live.SECONDS", 0.02)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data") / "tfrecord", train=200, validation=40)


def parameters(run_id: str, **other: Any) -> LaunchParameters:
    values = dict(model_type="din", epochs=3, patience=0, global_batch_size=20, embedding_dim=4, log_steps=2, seed=7)
    return STEPS["train"].of(run_id=run_id, experiment="curves", **(values | other))


def run_of(store: str, run_id: str) -> Run:
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("curves")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], f"tags.`kfrec.pipeline_run` = '{run_id}'")
    return run


def steps(store: str, run: Run, name: str) -> list[int]:
    return [point.step for point in MlflowClient(store).get_metric_history(run.info.run_id, name)]


def require_whole(store: str, run_id: str, model: Path) -> Run:
    """The run has every point of the training log once, its parameters, inputs, results and files."""
    run, client = run_of(store, run_id), MlflowClient(store)
    assert [len(steps(store, run, name)) for name in SERIES] == [15, 15, 3, 3]
    assert all(sorted(set(found)) == sorted(found) for found in (steps(store, run, name) for name in SERIES))
    assert run.data.params["global_batch_size"] == "20" and run.data.params["train_seed"] == "7"
    assert run.data.metrics["best_epoch"] >= 1 and "time_to_train" in run.data.metrics
    assert {item.dataset.name.split()[-1] for item in run.inputs.dataset_inputs} == {"train", "validation"}
    files = {item.path for item in client.list_artifacts(run.info.run_id, "training")}
    assert files == {"training/log.json", "training/training.json"}
    assert run.data.tags["kfrec.trained_model"] == open_artifact(model).digest
    return run


def require_points(store: str, run_id: str, model: Path) -> None:
    """The newest value of each step is that of the model's training log."""
    logged = {
        (name, point.step): point.value
        for name in SERIES
        for point in sorted(
            MlflowClient(store).get_metric_history(run_of(store, run_id).info.run_id, name),
            key=lambda point: point.timestamp,
        )
    }
    results = json.loads((model / TRAINING).read_text())
    expected = {
        (name, step): value
        for step, metrics in points_of(model / LOG, results, 2)
        for name, value in metrics.items()
        if name in SERIES
    }
    assert logged == pytest.approx(expected) and len(read_log(model / LOG)) > 30


class Watched(InProcess):
    """A launcher that looks at the run after the workers have told of two epochs, and before the step goes on."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look

    def run(self, workers: int, arguments: Any, log: Path, measured: Any = None) -> None:
        super().run(workers, arguments, log, measured)
        self._look()


def test_epochs_and_steps_are_in_mlflow_before_the_step_ends(data: Path, store: str, tmp_path: Path) -> None:
    seen: list[list[int]] = []

    def look() -> None:
        wait_for(lambda: len(steps(store, run_of(store, "live"), "epoch/validation_auc")) >= 2)
        run = run_of(store, "live")
        assert run.info.status == "RUNNING" and "best_epoch" not in run.data.metrics
        seen.append(steps(store, run, "loss"))

    train(parameters("live"), tfrecord=data, model=tmp_path / "model", launcher=Watched(look))
    assert seen == [[2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30]]
    assert require_whole(store, "live", tmp_path / "model").info.status == "FINISHED"


def test_a_model_that_workers_recorded_in_storage_completes_the_run_of_its_step(
    data: Path, store: str, tmp_path: Path
) -> None:
    step = parameters("storage")
    train(step, tfrecord=data, model=tmp_path / "model", launcher=InProcess())
    kind = worker_parameters(step.model_type, step.task)
    shared = {p.name: getattr(step, p.name) for p in parameters_of(kind) if hasattr(step, p.name)}
    model = replace(open_artifact(tmp_path / "model"), parameters=recorded(kind(**shared)))
    with tracked_run("curves", "storage", "train") as run:
        run.set_tags({"kfrec.trained_model": ""})
        complete_training(run, model, open_artifact(data))
    require_whole(store, "storage", tmp_path / "model")


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Points the steps to a server, or to none."""
    yield lambda uri: monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)


@pytest.mark.slow
def test_a_server_that_is_away_from_the_start_gets_everything_at_the_end(
    data: Path, store: str, tmp_path: Path, away: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    away(_AWAY)
    train(parameters("start"), tfrecord=data, model=tmp_path / "model", launcher=Watched(lambda: away(store)))
    assert capsys.readouterr().err.count("the training continues") == 1
    require_whole(store, "start", tmp_path / "model")


@pytest.mark.slow
def test_a_server_that_is_still_away_at_the_end_gets_everything_from_the_next_step(
    data: Path, store: str, tmp_path: Path, away: Any
) -> None:
    away(_AWAY)
    train(parameters("later"), tfrecord=data, model=tmp_path / "model", launcher=InProcess())
    away(store)
    for _ in range(2):  # the second one finds nothing to do
        with tracked_run("curves", "later", "evaluation") as run:
            complete_training(run, open_artifact(tmp_path / "model"), open_artifact(data))
    require_whole(store, "later", tmp_path / "model")


@pytest.mark.slow
@pytest.mark.parametrize("calls", [0, 3, 7])
def test_a_server_that_goes_away_in_the_middle(
    calls: int, data: Path, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = [None] * calls

    def answering(real: Any) -> Any:
        def answer(*given: Any, **named: Any) -> Any:
            if not left:
                raise _GONE
            left.pop()
            return real(*given, **named)

        return answer

    with monkeypatch.context() as patch:
        for name in ("log_batch", "log_inputs", "log_artifact", "set_terminated"):
            patch.setattr(MlflowClient, name, answering(getattr(MlflowClient, name)))
        watched = Watched(lambda: time.sleep(0.1))
        train(parameters(f"middle {calls}"), tfrecord=data, model=tmp_path / "model", launcher=watched)
    with tracked_run("curves", f"middle {calls}", "evaluation") as run:
        complete_training(run, open_artifact(tmp_path / "model"), open_artifact(data))
    assert require_whole(store, f"middle {calls}", tmp_path / "model").info.status == "FINISHED"


@pytest.mark.slow
def test_an_attempt_that_repeats_steps_logs_none_twice(data: Path, store: str, tmp_path: Path) -> None:
    class Fails(InProcess):
        def run(self, workers: int, arguments: Any, log: Path, measured: Any = None) -> None:
            super().run(workers, arguments, log, measured)
            raise KfrecError("the node is gone")

    with pytest.raises(KfrecError, match="the node is gone"):
        train(parameters("again"), tfrecord=data, model=tmp_path / "model", launcher=Fails())
    assert run_of(store, "again").info.status == "FAILED"
    train(parameters("again"), tfrecord=data, model=tmp_path / "model", launcher=InProcess())
    require_whole(store, "again", tmp_path / "model")


@pytest.mark.parametrize("second", [{"lr": 0.02}, {"seed": 8}, {"seed": -1}])
def test_another_training_of_the_run_shows_its_own_curve(
    second: dict[str, float], data: Path, store: str, tmp_path: Path
) -> None:
    """A resumed run whose parameters have changed, and one that draws its seed again."""
    name = f"another {' '.join(second)} {second.get('seed')}"
    first = {"seed": -1} if second == {"seed": -1} else {}
    train(parameters(name, **first), tfrecord=data, model=tmp_path / "first", launcher=InProcess())
    train(parameters(name, **second), tfrecord=data, model=tmp_path / "second", launcher=InProcess())
    require_points(store, name, tmp_path / "second")


@pytest.mark.slow
def test_the_points_are_those_of_the_training_log(data: Path, store: str, tmp_path: Path) -> None:
    train(parameters("points"), tfrecord=data, model=tmp_path / "model", launcher=InProcess())
    require_points(store, "points", tmp_path / "model")


@pytest.mark.parametrize(
    ("error", "status"), [(KfrecError("the loss is nan"), "FAILED"), (Stopped(15), "KILLED"), (None, "FINISHED")]
)
def test_a_training_ends_like_any_step(error: BaseException | None, status: str, store: str) -> None:
    for start in (training_run, tracked_run):
        name = f"{start.__name__} {status}"
        try:
            with start("curves", name, "a step"):
                if error:
                    raise error
        except BaseException as raised:
            assert raised is error
        assert run_of(store, name).info.status == status


def test_a_training_that_fails_keeps_its_own_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", _AWAY)
    with pytest.raises(KfrecError, match="the loss is nan"), training_run("curves", "", "a training"):
        raise KfrecError("the loss is nan")


@pytest.mark.parametrize(("wanted", "logged"), [("true", True), ("false", False)])
def test_system_metrics_are_mlflows_and_can_be_switched_off(
    wanted: str, logged: bool, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING", wanted)
    monkeypatch.setenv("MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL", "0.05")
    with training_run("curves", f"system {wanted}", "a training") as tracked, tracked.measured() as measured:
        measured(1, {"step": 1.0})
        wait_for(lambda: "step" in run_of(store, f"system {wanted}").data.metrics)
        wait_for(lambda: set(run_of(store, f"system {wanted}").data.metrics) - {"step"} or not logged)
    metrics = run_of(store, f"system {wanted}").data.metrics
    assert ("system/cpu_utilization_percentage" in metrics) == logged
