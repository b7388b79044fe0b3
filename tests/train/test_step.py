import dataclasses
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from components.artifacts import adopt, open_artifact, publishing
from components.errors import KfrecError
from components.steps.catalog import STEPS
from components.train.launching.relay import Measured, ignored
from components.train.step import run
from components.training_log import read_log
from tests.train.dataset import ITEMS, write_dataset
from tests.train.displays import write_displays
from tests.train.in_process import InProcess

pytestmark = pytest.mark.usefixtures("store")
PARAMETERS = STEPS["train"].of(model_type="din", global_batch_size=100, embedding_dim=4, epochs=1, seed=3)


@pytest.mark.slow
def test_the_step_publishes_a_model_and_tracks_it(tmp_path: Path, store: str) -> None:
    from mlflow import MlflowClient

    data = write_dataset(tmp_path / "tfrecord")
    parameters = dataclasses.replace(PARAMETERS, experiment="published", model_uri="gs://bucket/published/model")
    returned = run(parameters, tfrecord=data, model=tmp_path / "model", launcher=InProcess())
    assert (returned["train"], returned["validation"]) == (900, 100)
    # Where the step's artifact goes, from which another step can fetch it.
    assert returned["trained_model"] == "gs://bucket/published/model" and 0 < returned["metrics"]["validation_auc"] <= 1
    model = open_artifact(tmp_path / "model")
    model.verify()
    assert model.inputs == {"tfrecord": open_artifact(data).digest}
    top = {entry.path.split("/")[0] for entry in model.files}
    assert {"saved_model", "checkpoint", "feature_spec.yaml", "parameters.json", "training.json", "log.json"} <= top
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("published")
    (tracked,) = client.search_runs([experiment.experiment_id])
    assert tracked.data.params["embedding_dim"] == "4" and tracked.info.status == "FINISHED"
    assert {"validation_auc", "best_epoch", "loss", "samples_per_second", "step_seconds"} <= set(tracked.data.metrics)
    left = [record["data"].get("seconds_left") for record in read_log(tmp_path / "model" / "log.json")
            if isinstance(record["step"], list) and len(record["step"]) == 2]  # fmt: skip
    assert left[0] is None and None not in left[1:] and tracked.data.metrics["seconds_left"] == left[-1]
    assert tracked.data.tags["data.tfrecord.digest"] == open_artifact(data).digest
    kept = {entry.path for entry in client.list_artifacts(tracked.info.run_id, "training")}
    assert kept == {"training/log.json", "training/training.json"}


@pytest.mark.slow
def test_ids_above_the_cardinality_stop_the_step_and_leave_the_earlier_model(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "tfrecord")
    with publishing(tmp_path / "model", step="train") as staging:
        (staging.path / "weights").write_text("earlier")
    spec = data / "feature_spec.yaml"
    spec.write_text(spec.read_text().replace(f"cardinality: {ITEMS}", "cardinality: 12"))
    adopt(data)
    with pytest.raises(KfrecError) as raised:
        run(PARAMETERS, tfrecord=data, model=tmp_path / "model", launcher=InProcess())
    line = str(raised.value)
    assert "part_0.tfrecord: record" in line and "above the cardinality 12 in feature_spec.yaml" in line
    assert "\n" not in line
    assert (tmp_path / "model" / "weights").read_text() == "earlier"


def test_a_training_that_is_stopped_is_killed_and_has_what_was_known_before_it_began(
    tmp_path: Path, store: str
) -> None:
    from mlflow import MlflowClient

    class Stopped:
        def run(self, workers: int, arguments: Sequence[str], log: Path, measured: Measured = ignored) -> None:
            raise SystemExit(128 + signal.SIGTERM)

    data = open_artifact(write_dataset(tmp_path / "tfrecord", train=10, test=10))
    with pytest.raises(SystemExit):
        parameters = dataclasses.replace(PARAMETERS, experiment="stopped")
        run(parameters, tfrecord=data.path, model=tmp_path / "model", launcher=Stopped())
    client = MlflowClient(store)
    (tracked,) = client.search_runs([client.get_experiment_by_name("stopped").experiment_id])
    assert tracked.info.status == "KILLED" and tracked.info.run_name.startswith(
        f"{PARAMETERS.model_type} data {data.digest[:7]} "
    )
    assert tracked.data.params["embedding_dim"] == "4" and tracked.data.params["train_seed"] == "3"
    assert tracked.data.tags["data.tfrecord.digest"] == data.digest
    assert {each.tags[0].value for each in tracked.inputs.dataset_inputs} == {"training"}


def test_a_batch_that_the_workers_cannot_share_is_refused_before_any_starts(tmp_path: Path) -> None:
    data = write_dataset(tmp_path / "tfrecord", train=10, test=10)
    parameters = STEPS["train"].of(global_batch_size=10, workers=3)
    with pytest.raises(KfrecError, match="global_batch_size 10 cannot be divided evenly over 3 workers; use 9 or 12"):
        run(parameters, tfrecord=data, model=tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_data_that_the_task_cannot_evaluate_are_refused_before_any_worker_starts(tmp_path: Path) -> None:
    data = write_displays(tmp_path / "tfrecord", train=100, test=40, grouped=False)
    parameters = STEPS["train"].of(model_type="wide_and_deep", global_batch_size=50)
    with pytest.raises(
        KfrecError, match=r"has no group, which MAP@k needs; .* choose with --task a task that needs no"
    ):
        run(parameters, tfrecord=data, model=tmp_path / "model", launcher=None)
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("there", ["", "tfrecord_uri", "model_uri"])
def test_an_mpijob_whose_pods_would_not_see_the_folders_is_refused(tmp_path: Path, there: str) -> None:
    data = write_dataset(tmp_path / "tfrecord", train=10, test=10)
    given = {there: "gs://bucket/x"} if there else {}
    missing = "model_uri" if there == "tfrecord_uri" else "tfrecord_uri"
    parameters = STEPS["train"].of(global_batch_size=10, launcher="mpijob", **given)
    with pytest.raises(KfrecError, match=f"launcher=mpijob needs a {missing} in object storage, not '': the pods"):
        run(parameters, tfrecord=data, model=tmp_path / "model")
    assert not (tmp_path / "model").exists()
