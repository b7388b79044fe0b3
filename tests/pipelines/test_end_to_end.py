"""The whole workflow in an empty folder, every step real, in one process beside two ranks; tests/pipelines/runs has a
process a step."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.artifacts import open_artifact
from pipelines.cli import main
from pipelines.defaults import PIPELINES, TRAINING
from tests.fakes.raw_rows import raw_rows
from tests.pipelines import walk
from tests.pipelines.conftest import Run, run_in_process
from tests.pipelines.in_process import steps_in_process

# What learns this data in one epoch, and how little judges it here.
_GIVEN = ("train_seed=1", "epochs=1", "embedding_dim=8", "catalogue_users=20", "bootstrap_samples=100")
_ONE_WORKER = ("preprocess_workers=1", "tfrecord_workers=1")


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work") / "runs"


@pytest.fixture(scope="module")
def first(workdir: Path) -> Run:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        return run_in_process("--workdir", str(workdir), *assigned(*_GIVEN, *_ONE_WORKER, "workers=2"))


def assigned(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]


@pytest.mark.slow
def test_a_model_learns_the_built_in_data(first: Run) -> None:
    assert first.summary["metrics"]["test_auc"] >= 0.75


def test_the_summary_tells_everything_about_the_run(first: Run) -> None:
    summary = first.summary
    assert set(summary["steps"]) == set(PIPELINES[TRAINING])
    assert all(step["seconds"] > 0 and step["rows"] > 0 for step in summary["steps"].values())
    assert summary["steps"]["preprocess"]["rows"] == summary["steps"]["tfrecord"]["rows"]
    assert set(summary["metrics"]) == {
        "test_auc",
        "test_positives",
        "train_auc",
        "test_logloss",
        "train_samples_per_second",
        "time_to_train",
    }
    assert (summary["registered"]["version"], summary["registered"]["alias"]) == (1, "champion")
    assert summary["run_id"] and summary["parameters"]["train_seed"] == 1
    for name in ("raw", "parquet", "tfrecord", "model", "evaluation"):
        open_artifact(summary["artifacts"][name]).verify()
    assert "<html" in Path(summary["artifacts"]["report"]).read_text()[:200]


def test_artifacts_name_what_they_were_made_from(first: Run) -> None:
    artifacts = first.summary["artifacts"]
    digest = {name: open_artifact(artifacts[name]).digest for name in ("raw", "parquet", "tfrecord", "model")}
    assert open_artifact(artifacts["parquet"]).inputs == {"raw": digest["raw"]}
    assert open_artifact(artifacts["tfrecord"]).inputs == {"parquet": digest["parquet"]}
    assert open_artifact(artifacts["model"]).inputs == {"tfrecord": digest["tfrecord"]}
    assert open_artifact(artifacts["evaluation"]).inputs == {"tfrecord": digest["tfrecord"], "model": digest["model"]}


def test_one_mlflow_run_holds_what_all_steps_say(first: Run, workdir: Path) -> None:
    from mlflow import MlflowClient

    kept = first.summary["mlflow"]
    run = MlflowClient(kept["tracking_uri"]).get_run(kept["run_id"])
    assert run.info.status == "FINISHED"
    assert run.data.tags["kfrec.pipeline_run"] == first.summary["run_id"]
    assert run.data.metrics["test_auc"] == pytest.approx(first.summary["metrics"]["test_auc"], abs=1e-3)
    assert run.data.params["global_batch_size"] == str(first.summary["parameters"]["global_batch_size"])
    assert run.info.run_name == Path(first.summary["artifacts"]["raw"]).relative_to(workdir).parts[0]
    assert run.data.tags["mlflow.note.content"] == "sim synthetic"
    assert run.data.params["download.source"] == "synthetic"
    assert run.data.params["preprocess.max_sequence_length"] == "100"
    rows = {each.dataset.name: json.loads(each.dataset.profile or "")["num_rows"] for each in run.inputs.dataset_inputs}
    counts = first.summary["steps"]["tfrecord"]["counts"]
    assert rows == {f"synthetic {split}": counts[split] for split in ("train", "validation", "test")}


@pytest.mark.slow
def test_a_prediction_with_the_champion_writes_the_scores_of_the_evaluation_beside_the_rows(
    first: Run, workdir: Path, tmp_path: Path, in_process: Callable[..., Run]
) -> None:
    artifacts = first.summary["artifacts"]
    (tmp_path / "days").mkdir()
    pd.DataFrame(raw_rows(Path(artifacts["tfrecord"]))).to_parquet(tmp_path / "days" / "monday.parquet")
    done = in_process(workdir, "--pipeline=prediction", f"--set=rows={tmp_path / 'days'}")
    assert done.status == 0, done.err[-3000:]
    scores = pd.read_parquet(Path(artifacts["evaluation"]) / "predictions.parquet")["probability"]
    made = open_artifact(done.out.splitlines()[-1])
    assert (made.step, made.rows["rows"]) == ("predict", len(scores))
    beside = pd.read_parquet(tmp_path / "days" / "monday.scores.parquet")
    np.testing.assert_allclose(beside["probability"], scores, atol=1e-6)


@pytest.mark.slow
def test_a_model_learns_nothing_where_there_is_nothing_to_learn_and_leaves_the_champion(
    workdir: Path, first: Run, in_process: Callable[..., Run]
) -> None:
    assert first.summary["registered"]["alias"] == "champion"
    control = in_process(
        workdir,
        *("--model", "din", *assigned(*_GIVEN, *_ONE_WORKER)),
        *assigned("registered_model=kfrec-ctr", "synthetic_shuffled_labels=true", "synthetic_users=1000"),
    ).summary
    assert control["metrics"]["test_auc"] == pytest.approx(0.5, abs=0.04)
    assert (control["registered"]["version"], control["registered"]["alias"]) == (2, "challenger")
    assert "of champion version 1 on the same samples" in control["registered"]["reason"]


@pytest.mark.slow
def test_what_the_pages_show_runs_after_the_first_trainings(
    workdir: Path, first: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands, in the order of the pages, in the folder that holds runs/; it leaves no other store of MLflow."""
    name = Path(first.summary["artifacts"]["raw"]).relative_to(workdir).parts[0]
    monkeypatch.chdir(workdir.parent)
    walk.prepare(workdir.parent)
    commands = list(walk.commands(name))
    assert {words[0] for words in commands} >= {"ui", "runs", "compare", "predict", "recommend", "serve", "run"}
    for words in commands:
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        with steps_in_process():
            status = main(words)
        assert status == 0, f"kfrec {' '.join(words)}: {capsys.readouterr().err[-2000:]}"
    for path in walk.paths(name):
        assert Path(path).exists(), path
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    for page in ("predict.md", "python.md"):
        known: dict[str, Any] = {}
        for block in walk.snippets(page, name):
            exec(block, known)
        model = known["model"]
        for body in walk.requests(page):
            answer = model.predict(pd.DataFrame(body["dataframe_records"]), params=body.get("params"))
            assert len(answer) == (20 if "params" in body else 1)
    assert not Path("mlflow.db").exists() and not Path("mlruns").exists()


def test_bad_input_ends_the_run_with_one_line_naming_the_step(
    tmp_path: Path, workdir: Path, in_process: Callable[..., Run]
) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "reviews_X.json").write_text('{"reviewerID": "A", "asin": "B", "unixReviewTime": 1}\n')
    (raw / "meta_X.json").write_text("{'asin': 'B', 'categories': [['C']]}\n")
    ended = in_process(workdir, "--source", str(raw))
    assert ended.status == 2
    last = ended.err.strip().splitlines()[-1]
    assert last.startswith("error: preprocess: ") and "no user has two events" in last
    assert "Traceback" not in ended.err
