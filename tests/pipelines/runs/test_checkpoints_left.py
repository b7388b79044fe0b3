"""Which checkpoints of an earlier attempt a training resumes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from components.artifacts import open_artifact, publishing
from components.steps.catalog import STEPS
from components.steps.recorded import recorded
from components.train.failure import kept_on_failure
from pipelines.defaults import Pipeline
from pipelines.local import arguments_of
from pipelines.runs.earlier import Earlier, checkpoints_of
from pipelines.runs.record import RunRecord

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
    with pytest.raises(SystemExit), kept_on_failure(model) as kept:
        kept.checkpoints.mkdir()
        kept.note(given)
        (kept.checkpoints / "checkpoint").touch()
        raise SystemExit
    return made


def left(record: RunRecord, *, tfrecord: bool = True, **changed: Any) -> str:
    steps = {"tfrecord": {"outputs": {"tfrecord": str(record.folder / "tfrecord")}}} if tfrecord else {}
    return checkpoints_of(record, _PIPELINE, record.parameters | changed, Earlier("", steps))


def test_a_training_with_the_same_parameters_and_data_resumes(record: RunRecord) -> None:
    assert left(record).endswith("first/train/.model.checkpoint")


@pytest.mark.parametrize("changed", [{"workers": 2}, {"disable_cache": True}, {"log_steps": 1}, {"restarts": 9}])
def test_a_training_resumes_elsewhere_and_with_other_logs(record: RunRecord, changed: dict[str, Any]) -> None:
    assert left(record, **changed)


@pytest.mark.parametrize("changed", [{"lr": 0.5}, {"epochs": 9}, {"embedding_dim": 8}, {"global_batch_size": 2048}])
def test_checkpoints_of_another_training_are_dropped_in_words(
    record: RunRecord, changed: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert left(record, **changed) == ""
    ((name, value),) = changed.items()
    line = capsys.readouterr().err
    assert line.startswith(f"parameter {name} changed from ") and f" to {value}: the checkpoints in " in line
    assert line.endswith("do not fit any more, and are dropped\n")


def test_checkpoints_of_other_records_are_dropped(record: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    assert left(record, tfrecord=False) == ""
    with publishing(record.folder / "tfrecord", step="tfrecord") as staging:
        (staging.path / "part").write_text("other records")
    assert left(record) == ""
    assert [line.partition(":")[0] for line in capsys.readouterr().err.splitlines()] == [
        "the records are written again",
        "the records have changed",
    ]
