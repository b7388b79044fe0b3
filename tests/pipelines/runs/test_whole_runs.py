"""One run of a small model that is killed and interrupted, taken up, listed, repeated and compared."""

from __future__ import annotations

import io
import json
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import main
from pipelines.defaults import PIPELINES, TRAINING
from pipelines.definitions import up_to
from pipelines.runs.record import read_record
from tests.harm.test_kills import alive, end, nothing_goes_on, started
from tests.test_secrets import CANARY, CREDENTIALS, holds_canary
from tests.waiting import LONGEST, wait_for

pytestmark = pytest.mark.slow
_GIVEN = {
    "synthetic_users": 60, "synthetic_items": 100, "embedding_dim": 4, "epochs": 3, "global_batch_size": 32,
    "checkpoint_steps": 2, "train_seed": 1, "auc_floor": 0.3, "bootstrap_samples": 100, "preprocess_workers": 1,
    "tfrecord_workers": 1, "require_baseline": False,
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How an attempt was ended.

    Attributes:
        number: the signal.
        status: exit status of the command.
        said: what it wrote, to stdout and stderr.
        went_on: processes that outlived it.
        listed: the run, as ``kfrec runs --json`` shows it then.
    """

    number: signal.Signals
    status: int
    said: str
    went_on: list[int]
    listed: dict[str, Any]


@dataclass(frozen=True)
class Stopped:
    """The run, how its attempts were ended, and how the last of them finished it.

    Attributes:
        workdir: of runs.
        temporary: TMPDIR of every attempt.
        folder: of the run.
        ended: the first attempts, by the step during which they were ended.
        taken_up: the last attempt.
    """

    workdir: Path
    temporary: Path
    folder: Path
    ended: dict[str, Ended]
    taken_up: subprocess.CompletedProcess[str]


def runs(workdir: Path) -> list[dict[str, Any]]:
    with redirect_stdout(io.StringIO()) as said:
        assert main(["runs", "--json", "--workdir", str(workdir)]) == 0
    return json.loads(said.getvalue())


def end_during(step: str, number: signal.Signals, begun: str, words: list[str], workdir: Path) -> Ended:
    """Starts a command and ends it in a step.

    Args:
        step: its name.
        number: the signal; SIGINT goes to the whole process group, as from a terminal.
        begun: pattern of a file below the run's folder; with it, the step has begun its work.
        words: the command.
        workdir: of runs.
    """
    with started(words) as (process, mark):
        wait_for(lambda: process.poll() is not None or list(workdir.glob(f"*/*/{step}/{begun}")))
        assert process.poll() is None
        said = end(process, number)
        went_on = [] if nothing_goes_on(mark) else alive(mark)
    (listed,) = runs(workdir)
    return Ended(number, process.returncode, said, went_on, listed)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stopped]:
    workdir = tmp_path_factory.mktemp("work") / "runs"
    given = [word for name, value in _GIVEN.items() for word in ("--set", f"{name}={value}")]
    start = ["pipelines.cli", "run", "--model", "din", "--workdir", str(workdir), *given]
    take_up = ["pipelines.cli", "run", "--resume", "last", "--workdir", str(workdir)]
    # The name is short: sockets have names of 108 bytes at most.
    with tempfile.TemporaryDirectory(prefix="t") as temporary, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", temporary)
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        for name in CREDENTIALS:
            if name != "MLFLOW_TRACKING_USERNAME":  # mlflow shows the account as the user of what it made
                patch.setenv(name, CANARY)
        ended = {
            step: end_during(step, number, begun, words, workdir)
            for step, number, begun, words in (
                ("preprocess", signal.SIGKILL, ".parquet.partial/writer", start),
                ("train", signal.SIGINT, ".model.checkpoint/checkpoint", take_up),
            )
        }
        taken_up = subprocess.run([sys.executable, "-m", *take_up], capture_output=True, text=True, timeout=LONGEST)
        yield Stopped(workdir, Path(temporary), Path(ended["train"].listed["folder"]), ended, taken_up)


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


def test_nothing_that_a_run_leaves_or_says_holds_a_credential(run: Stopped, summary: dict[str, Any]) -> None:
    assert {"steps.log", "summary.json", "report.html"} <= {path.name for path in run.workdir.rglob("*")}
    assert holds_canary(run.workdir) == []
    said = [run.taken_up.stdout, run.taken_up.stderr, *(ended.said for ended in run.ended.values())]
    assert CANARY not in "".join(said)


def test_a_run_that_was_ended_says_so_and_nothing_of_it_goes_on(run: Stopped) -> None:
    for step, ended in run.ended.items():
        assert ended.went_on == [], f"{ended.went_on} went on after {ended.number.name} in {step}"
        assert (ended.listed["state"], ended.listed["model"]) == ("stopped", "din")
        assert ended.listed["folder"] == str(run.folder)
        if ended.number == signal.SIGKILL:
            assert ended.status == -signal.SIGKILL
            continue
        assert ended.status == 128 + ended.number, ended.said[-2000:]
        assert "Traceback" not in ended.said and ended.said.count(f"during the step {step}") == 1, ended.said[-2000:]
        assert ended.said.splitlines()[-1].endswith(f"resume with: kfrec run --resume {run.folder}")


def test_a_run_that_is_taken_up_redoes_nothing_that_is_finished(run: Stopped, summary: dict[str, Any]) -> None:
    said = run.taken_up.stderr
    for step in ("download", "preprocess", "tfrecord"):
        assert f"{step:<10} is finished" in said and f"{step:<10} …" not in said
    assert "train      resumes from" in said and "train      …" in said
    assert set(summary["steps"]) == {"download", "preprocess", "tfrecord", "train", "evaluate", "register"}
    # What was begun and not finished is begun anew, and what was finished is not.
    attempts = {step: len(list(run.folder.glob(f"*/{step}"))) for step in ("download", "preprocess", "tfrecord")}
    assert attempts == {"download": 1, "preprocess": 2, "tfrecord": 1}


@pytest.mark.usefixtures("summary")
def test_a_person_sees_each_step_and_one_table(run: Stopped) -> None:
    said, shown = run.taken_up.stderr, run.taken_up.stdout
    assert all(f"{step:<10} done in " in said for step in ("train", "evaluate", "register"))
    for step in PIPELINES[TRAINING]:
        assert any(line.startswith(step) for line in shown.splitlines())
    assert "test AUC 0." in shown and "is the champion" in shown
    # Nothing of the machinery shows through.
    for noise in ("Traceback", "Warning", "tensorflow/core", "KFP Executor", "INFO"):
        assert noise not in shown and noise not in said, noise


@pytest.mark.usefixtures("summary")
def test_a_run_that_was_ended_leaves_nothing_behind(run: Stopped) -> None:
    assert not list(run.workdir.rglob(".*.partial")) and not list(run.temporary.glob("kfrec-run-*"))


def test_the_training_goes_on_from_its_checkpoint(summary: dict[str, Any]) -> None:
    log = (Path(summary["artifacts"]["model"]) / "log.json").read_text()
    steps = [json.loads(line.removeprefix("DLLL "))["step"] for line in log.splitlines()]
    assert [1, 1] not in steps and steps[-1] == []


def test_the_steps_of_all_attempts_are_one_run_in_mlflow(summary: dict[str, Any]) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(summary["mlflow"]["tracking_uri"])
    found = client.get_run(summary["mlflow"]["run_id"])
    assert found.info.status == "FINISHED" and found.data.tags["kfrec.pipeline_run"] == summary["run_id"]
    every = client.search_runs([each.experiment_id for each in client.search_experiments()])
    assert "RUNNING" not in {each.info.status for each in every}


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
    assert "no data" in shown and "which is no more than chance" in shown


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


@pytest.mark.usefixtures("equal_steps")
def test_a_repetition_of_a_run_with_a_refit_says_that_it_is_of_the_judged_model(
    run: Stopped, summary: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refit = {"version": 2, "alias": "champion", "reason": "It is version 1, trained again on 9 samples."}
    (tmp_path / "summary.json").write_text(json.dumps(summary | {"refit": refit}))
    assert main(["reproduce", str(tmp_path / "summary.json"), "--workdir", str(run.workdir)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"repeated is the judged model, not its refit; the run published version 2: {refit['reason']}"


def test_runs_are_listed_with_what_came_of_them(
    run: Stopped, summary: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["runs", "--workdir", str(run.workdir)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(run.folder.name)]
    assert line.split()[1] == "finished" and f"AUC {summary['metrics']['test_auc']:.4f}" in line
    assert line.endswith("version 1, champion")
