"""The record of a run: its state, and what a run that is named is."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from components.errors import KfrecError
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.runs.earlier import Earlier, checkpoints_of
from pipelines.runs.lifecycle import running, tracked_at
from pipelines.runs.record import FAILED, FINISHED, RUNNING, STOPPED, RunRecord, find_run, held, read_record


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    folder = tmp_path / "runs" / "20261124-100000-aaaa"
    folder.mkdir(parents=True)
    made = RunRecord(folder, Pipeline(model="din"), {"epochs": 3}, "sqlite:////x/mlflow.db", started=1.0)
    made.write()
    return made


def test_a_record_is_read_as_it_was_written(record: RunRecord) -> None:
    assert read_record(record.folder) == record


def test_a_run_is_running_while_a_process_holds_it_and_was_stopped_if_none_does(record: RunRecord) -> None:
    assert record.state_now() == STOPPED
    with held(record.folder):
        assert record.state_now() == RUNNING


def test_a_run_that_ends_in_order_is_finished(record: RunRecord) -> None:
    with running(record):
        assert read_record(record.folder).state_now() == RUNNING
    assert read_record(record.folder).state_now() == FINISHED


def test_an_error_ends_with_the_command_that_goes_on_and_is_kept(record: RunRecord) -> None:
    with pytest.raises(KfrecError) as caught, running(record):
        raise KfrecError("train: the disk is full")
    command = f"kfrec run --resume {record.folder} (--set NAME=VALUE changes a parameter)"
    assert str(caught.value) == f"train: the disk is full; resume with: {command}"
    again = read_record(record.folder)
    assert (again.state, again.message) == (FAILED, "train: the disk is full")


@pytest.mark.parametrize("name", ["last", "20261124-100000-aaaa", "folder"])
def test_a_run_is_found_by_name_folder_or_as_the_last(record: RunRecord, name: str) -> None:
    name = str(record.folder) if name == "folder" else name
    assert find_run(record.folder.parent, name) == record


def test_a_run_that_is_running_is_not_taken_up(record: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    with held(record.folder):
        assert main(["run", "--resume", str(record.folder)]) == 2
    assert capsys.readouterr().err == f"error: {record.folder}: the run is still running; wait for it or stop it\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--model", "dien"], "error: --model dien: the run 20261124-100000-aaaa has din"),
        (["--pipeline", "retraining"], "error: --pipeline retraining: the run 20261124-100000-aaaa has training"),
        (["--tracking-uri", "sqlite:////y.db"], "error: --tracking-uri sqlite:////y.db: the run"),
    ],
)
def test_a_run_is_not_taken_up_with_another_model_or_store(
    record: RunRecord, words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--resume", str(record.folder), *words]) == 2
    assert capsys.readouterr().err.startswith(told)


def test_a_store_that_the_folder_of_a_run_names_gets_no_password(
    record: RunRecord, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record.tracking_uri = "http://theirs.example:5000"
    record.write()
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracked_at(record) == record.tracking_uri
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "mine")
    assert main(["run", "--resume", str(record.folder)]) == 2
    told = "MLflow keeps the run at http://theirs.example:5000, which would get MLFLOW_TRACKING_PASSWORD of the"
    assert f"{record.folder}: {told}" in capsys.readouterr().err
    monkeypatch.setenv("MLFLOW_TRACKING_URI", record.tracking_uri)
    assert tracked_at(record) == record.tracking_uri


def test_runs_are_listed_with_their_states(record: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--workdir", str(record.folder.parent)]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split() == ["run", "state", "model", "started", "duration", "metric", "warnings", "verdict"]
    assert line.split()[:3] == ["20261124-100000-aaaa", "stopped", "din"]


def test_the_reason_of_a_failure_is_listed_whole(record: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    record.state, record.message = "failed", f"train: {'a long reason, ' * 12}and the remedy; resume with: kfrec run"
    record.write()
    assert main(["runs", "--workdir", str(record.folder.parent)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("and the remedy")


def test_a_damaged_record_hides_no_other_run(record: RunRecord, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = record.folder.parent / "damaged"
    damaged.mkdir()
    (damaged / "run.json").write_text("{")
    assert main(["runs", "--workdir", str(record.folder.parent)]) == 2
    said = capsys.readouterr()
    assert "20261124-100000-aaaa" in said.out and said.err.startswith(f"error: {damaged / 'run.json'}: not a run")


def test_only_checkpoints_that_are_complete_are_gone_on_from(record: RunRecord) -> None:
    first, second = (record.folder / name / "train" / ".model.checkpoint" for name in ("first", "second"))
    for folder in (first, second):
        folder.mkdir(parents=True)
        (folder / "ckpt-2.data-00000-of-00001").touch()
    found = functools.partial(checkpoints_of, record, record.pipeline, record.parameters, Earlier())
    assert found() == ""
    (first / "ckpt-2.index").touch()  # TensorFlow writes it last
    assert found() == str(first)
