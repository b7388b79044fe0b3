"""What a run tells of its data."""

import json
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from components.artifacts import Artifact, open_artifact, publishing
from components.tracking.run import tracked_run
from components.tracking.trained import data_name, log_lineage, log_splits


def records(folder: Path, **download: Any) -> Artifact:
    """Records with the parameters of the steps before them."""
    inputs: dict[str, Artifact] = {}
    given = {
        "download": {"source": "synthetic", "seed": 1, **download},
        "preprocess": {"max_sequence_length": 100, "malformed_limit": 0.01},
        "tfrecord": {"prebatch_train_size": 0},
    }
    for step, parameters in given.items():
        with publishing(folder / step, step=step, inputs=inputs, parameters=parameters) as staging:
            (staging.path / "file").write_text(json.dumps(given))
            staging.rows.update(train=1000, test=300)
        inputs = {step: open_artifact(folder / step)}
    return inputs["tfrecord"]


def test_a_run_has_the_parameters_of_every_step_before_it(store: str, tmp_path: Path) -> None:
    with tracked_run("lineage") as run:
        log_lineage(run, records(tmp_path))
    assert MlflowClient(store).get_run(run.id).data.params == {
        "download.source": "synthetic",
        "download.seed": "1",
        "preprocess.max_sequence_length": "100",
        "preprocess.malformed_limit": "0.01",
        "tfrecord.prebatch_train_size": "0",
    }


def test_a_password_in_the_source_is_not_logged(store: str, tmp_path: Path) -> None:
    with tracked_run("lineage") as run:
        log_lineage(run, records(tmp_path, source="https://someone:secret@host/data"))
    assert MlflowClient(store).get_run(run.id).data.params["download.source"] == "https://someone:***@host/data"


def test_the_splits_are_dataset_inputs_once_however_often_they_are_logged(store: str, tmp_path: Path) -> None:
    data = records(tmp_path)
    for splits in (("train", "test"), ("test",)):
        with tracked_run("inputs", "pipeline") as run:
            log_splits(run, data, splits=splits)
    inputs = MlflowClient(store).get_run(run.id).inputs.dataset_inputs
    found = {each.dataset.name: (each.tags[0].value, each.dataset) for each in inputs}
    assert len(inputs) == 2 and set(found) == {"synthetic train", "synthetic test"}
    context, dataset = found["synthetic train"]
    assert context == "training" and found["synthetic test"][0] == "testing"
    assert data.digest.startswith(dataset.digest)
    assert json.loads(dataset.profile or "") == {"num_rows": 1000}
    assert json.loads(dataset.source) == {"uri": f"{tmp_path}/tfrecord/train"}


@pytest.mark.parametrize(
    ("download", "name"),
    [
        ({}, "synthetic"),
        ({"source": "gs://bucket/reviews/2024-05/"}, "2024-05"),
        ({"source": "https://someone:secret@host"}, "host"),
        ({"source": "/data/books", "data_version": "v7"}, "v7"),
    ],
)
def test_data_is_called_by_its_version_or_its_place(download: dict[str, str], name: str, tmp_path: Path) -> None:
    assert data_name(records(tmp_path, **download)) == name


def test_data_of_unknown_origin_is_called_by_its_digest(tmp_path: Path) -> None:
    with publishing(tmp_path / "own", step="adopted") as staging:
        (staging.path / "file").write_text("x")
    data = open_artifact(tmp_path / "own")
    assert data_name(data) == f"data {data.digest[:7]}"
