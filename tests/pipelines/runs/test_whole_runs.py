"""One run of a small model that is stopped, taken up, listed, repeated and compared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.runs.record import read_record
from pipelines.training import up_to

pytestmark = pytest.mark.slow
_GIVEN = {
    "synthetic_users": 60, "synthetic_items": 100, "embedding_dim": 4, "epochs": 3, "global_batch_size": 32,
    "checkpoint_steps": 2, "train_seed": 1, "auc_floor": 0.3, "bootstrap_samples": 100, "preprocess_workers": 1,
    "tfrecord_workers": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Stopped:
    """The run, how it was stopped, and how it was taken up."""

    workdir: Path
    folder: Path
    said: str
    listed: dict[str, Any]
    taken_up: subprocess.CompletedProcess[str]


def kfrec(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pipelines.cli", *map(str, words)],
        env={name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")},
        capture_output=True,
        text=True,
        timeout=400,
    )


def runs(workdir: Path) -> list[dict[str, Any]]:
    return json.loads(kfrec("runs", "--json", "--workdir", workdir).stdout)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Stopped:
    workdir = tmp_path_factory.mktemp("work") / "runs"
    given = [word for name, value in _GIVEN.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "pipelines.cli", "run", "--model", "din", "--workdir", str(workdir), *given]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        until = time.monotonic() + 300
        while not list(workdir.glob("*/*/train/.model.checkpoint/ckpt-*.index")):
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=60)[1]
    (listed,) = runs(workdir)
    taken_up = kfrec("run", "--resume", "last", "--workdir", workdir)
    return Stopped(workdir, Path(listed["folder"]), said, listed, taken_up)


@pytest.fixture(scope="module")
def summary(run: Stopped) -> dict[str, Any]:
    assert run.taken_up.returncode == 0, run.taken_up.stderr[-3000:]
    return json.loads((run.folder / "summary.json").read_text())


@pytest.fixture
def equal_steps(run: Stopped, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that copy what the run made, in a second instead of a minute; all else of a repetition is real."""

    def train(pipeline: object, arguments: object, record: Any, earlier: object, output: Any, last: str) -> None:
        events = read_record(run.folder).steps
        for name in up_to(last):
            places = {made: str(record.folder / name / made) for made in events[name]["outputs"]}
            for made, place in places.items():
                shutil.copytree(events[name]["outputs"][made], place)
            output.finished[name] = events[name] | {"outputs": places}

    monkeypatch.setattr("pipelines.runs.reproduce.train", train)


def test_a_stopped_run_says_how_to_go_on(run: Stopped) -> None:
    assert run.said.splitlines()[-1].endswith(f"go on with: kfrec run --resume {run.folder}")
    assert (run.listed["state"], run.listed["model"]) == ("stopped", "din")


def test_a_run_that_is_taken_up_redoes_nothing_that_is_finished(run: Stopped, summary: dict[str, Any]) -> None:
    said = run.taken_up.stderr
    for step in ("download", "preprocess", "tfrecord"):
        assert f"{step:<10} is finished" in said and f"{step:<10} …" not in said
    assert "train      goes on from" in said and "train      …" in said
    assert set(summary["steps"]) == {"download", "preprocess", "tfrecord", "train", "evaluate", "register"}
    assert len(list(run.folder.glob("*/preprocess"))) == 1


def test_the_training_goes_on_from_its_checkpoint(summary: dict[str, Any]) -> None:
    log = (Path(summary["artifacts"]["model"]) / "log.json").read_text()
    steps = [json.loads(line.removeprefix("DLLL "))["step"] for line in log.splitlines()]
    assert [1, 1] not in steps and steps[-1] == []


def test_the_steps_of_both_attempts_are_one_run_in_mlflow(summary: dict[str, Any]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(summary["mlflow"]["tracking_uri"])
    found = client.get_run(summary["mlflow"]["run_id"])
    assert found.info.status == "FINISHED" and found.data.tags["kfrec.pipeline_run"] == summary["run_id"]


def test_a_finished_run_is_not_taken_up(
    run: Stopped, summary: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--resume", str(run.folder)]) == 2
    assert "the run has finished" in capsys.readouterr().err


@pytest.mark.usefixtures("equal_steps")
def test_a_repetition_that_comes_to_the_same_says_so_and_is_no_better(
    run: Stopped, summary: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reproduce", str(run.folder / "summary.json"), "--workdir", str(run.workdir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith("same ") for line in lines)
    assert [line.split()[1] for line in lines][:5] == ["raw", "parquet", "tfrecord", "model", "evaluation"]
    assert f"same     test_auc {summary['metrics']['test_auc']}" in lines
    assert main(["compare", run.folder.name, "last", "--workdir", str(run.workdir)]) == 0
    shown = capsys.readouterr().out
    assert "data: no difference" in shown and "which is no more than chance" in shown


@pytest.mark.usefixtures("equal_steps")
def test_a_repetition_that_differs_says_where(
    run: Stopped, summary: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = summary | {
        "digests": summary["digests"] | {"model": "0" * 64},
        "metrics": summary["metrics"] | {"test_auc": 0.25},
    }
    (tmp_path / "summary.json").write_text(json.dumps(other))
    assert main(["reproduce", str(tmp_path / "summary.json"), "--workdir", str(run.workdir)]) == 1
    differing = [line for line in capsys.readouterr().out.splitlines() if line.startswith("differs ")]
    assert [line.split()[1] for line in differing] == ["model", "test_auc"]
    assert differing[1] == f"differs  test_auc 0.25 then, {summary['metrics']['test_auc']} now"


def test_runs_are_listed_with_what_came_of_them(
    run: Stopped, summary: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "--workdir", str(run.workdir)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(run.folder.name)]
    assert line.split()[1] == "finished" and f"AUC {summary['metrics']['test_auc']:.4f}" in line
    assert line.endswith("version 1, champion")
