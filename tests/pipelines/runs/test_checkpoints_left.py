"""Which checkpoints of an earlier attempt a training resumes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.artifacts import open_artifact, publishing
from components.errors import KfrecError
from components.steps.catalog import STEPS
from components.steps.recorded import recorded
from components.train.failure import left_on_failure
from pipelines.defaults import OF_REFIT, Pipeline
from pipelines.local import arguments_of, resume
from pipelines.runs.earlier import Earlier, checkpoints_of
from pipelines.runs.record import RunRecord, read_record

_PIPELINE = Pipeline(model="din")


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    """A run whose training left checkpoints in its first attempt."""
    folder = tmp_path / "runs" / "20261124-100000-aaaa"
    made = RunRecord(folder, _PIPELINE, arguments_of(_PIPELINE, {}, folder.parent), "")
    with publishing(folder / "tfrecord", step="tfrecord") as staging:
        (staging.path / "part").write_text("records")
    parameters = STEPS["train"].of(model_type="din", task="click", global_batch_size=1024)
    given = {
        "inputs": {"tfrecord": open_artifact(folder / "tfrecord").digest},
        "parameters": recorded(parameters),
    }
    model = folder / "first" / "train" / "model"
    model.parent.mkdir(parents=True)
    with pytest.raises(SystemExit), left_on_failure(model) as left:
        left.checkpoints.mkdir()
        left.note(given)
        (left.checkpoints / "ckpt-10.index").touch()
        raise SystemExit
    return made


def left(record: RunRecord, *, tfrecord: bool = True, **changed: Any) -> str:
    steps = {"tfrecord": {"outputs": {"tfrecord": str(record.folder / "tfrecord")}}} if tfrecord else {}
    return checkpoints_of(record, _PIPELINE, record.parameters | changed, Earlier("", steps))


def test_a_training_with_the_same_parameters_and_data_resumes(record: RunRecord) -> None:
    assert left(record).endswith("first/train/.model.checkpoint")


@pytest.mark.parametrize("changed", [{"workers": 2}, {"disable_cache": True}, {"log_steps": 1}, {"restarts": 9},
                                     {"epochs": 20, "patience": 3}, {"export_epoch": "last"}])  # fmt: skip
def test_a_training_resumes_elsewhere_for_longer_and_with_other_logs(
    record: RunRecord, changed: dict[str, Any]
) -> None:
    assert left(record, **changed)


@pytest.mark.parametrize(
    "changed", [{"lr": 0.5}, {"validation_share": 0.3}, {"embedding_dim": 8}, {"global_batch_size": 2048}]
)
def test_what_a_resume_cannot_change_is_named_before_epochs_are_lost(
    record: RunRecord, changed: dict[str, Any]
) -> None:
    ((name, value),) = changed.items()
    with pytest.raises(KfrecError, match=rf"lost: parameter {name} changed from .* to {value}; undo that, or delete"):
        left(record, **changed)
    record.steps["train"] = {}  # its model is there
    assert left(record, **changed) == ""


def test_a_resume_that_is_refused_changes_nothing(record: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    record.write()
    with pytest.raises(KfrecError, match=r"lost: the records are written again; .*; resume with: kfrec run --resume"):
        resume(record.folder, {"lr": 0.5})
    assert read_record(record.folder).parameters["lr"] == record.parameters["lr"]


def test_a_training_that_has_ended_goes_on_for_more_epochs(record: RunRecord) -> None:
    parameters = STEPS["train"].of(model_type="din", task="click", global_batch_size=1024)
    records = open_artifact(record.folder / "tfrecord")
    with publishing(
        record.folder / "model", step="train", inputs={"tfrecord": records}, parameters=recorded(parameters)
    ) as staging:
        (staging.path / "weights").touch()
    record.steps["train"] = {"outputs": {"model": str(record.folder / "model")}}
    assert left(record, epochs=20) == str(record.folder / "model" / "checkpoint")
    assert left(record, lr=0.5) == ""


def test_other_records_are_told_before_epochs_are_lost(record: RunRecord) -> None:
    with pytest.raises(KfrecError, match=r"lost: the records are written again; undo that, or delete the folder"):
        left(record, tfrecord=False)
    with publishing(record.folder / "tfrecord", step="tfrecord") as staging:
        (staging.path / "part").write_text("other records")
    with pytest.raises(KfrecError, match=r"lost: the records have changed; undo that, or delete the folder"):
        left(record)


def test_checkpoints_of_the_judged_training_are_no_refits(record: RunRecord) -> None:
    steps = {"tfrecord": {"outputs": {"tfrecord": str(record.folder / "tfrecord")}}}
    assert checkpoints_of(record, _PIPELINE, record.parameters | {"lr": 0.5}, Earlier("", steps), OF_REFIT) == ""
