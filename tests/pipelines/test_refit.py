"""A run that publishes what was trained again on everything, and one that does not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from mlflow import MlflowClient

from components.artifacts import open_artifact
from components.errors import KfrecError
from components.feature_spec.vocabulary import vocabulary_file
from components.train.results import trained_rows
from pipelines.cli import main
from tests.pipelines.conftest import Run, run_in_process

pytestmark = pytest.mark.slow

DAY = 86_400
DAYS, USERS, ITEMS = 20, 80, 24
# Launched on the last day, the newest tenth of the events.
NEW = "launched"
SMALL = {
    "item_dim": 16, "feed_forward_dim": 16, "lr": 0.01, "epochs": 3, "max_sequence_length": 10,
    "shortest_sequence_for_user": 3, "catalogue_users": 20, "global_batch_size": 64, "bootstrap_samples": 100,
    "beat_baseline": "false", "train_seed": 1, "preprocess_workers": 1, "tfrecord_workers": 1, "test_reviews": 0.1,
    "validation_reviews": 0.1,
}  # fmt: skip


def events() -> str:
    """Each user walks from item to item, an event a day; on the last day some choose the new one."""
    random = np.random.default_rng(1)
    lines = ["user,item,timestamp,category"]
    for user in range(USERS):
        first = random.integers(ITEMS)
        for day in range(DAYS):
            item = NEW if day == DAYS - 1 and user % 2 else f"i{(first + day) % ITEMS}"
            lines.append(f"u{user},{item},{1_700_000_000 + day * DAY + user},c{day % 3}")
    return "\n".join(lines) + "\n"


def words(source: Path, **values: Any) -> list[str]:
    given = {**SMALL, "source": str(source), **values}
    return ["--model=sasrec", "--dataset=events", *(f"--set={name}={value}" for name, value in given.items())]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("log")
    (folder / "events.csv").write_text(events())
    return folder


@pytest.fixture(scope="module")
def workdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("work") / "runs"


@pytest.fixture(scope="module")
def refitted(source: Path, workdir: Path) -> Iterator[Run]:
    with pytest.MonkeyPatch.context() as patch:
        for name in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"):
            patch.delenv(name, raising=False)
        yield run_in_process("--workdir", str(workdir), *words(source))


def items_of(folder: str | Path) -> set[str]:
    return set(pq.read_table(Path(folder) / vocabulary_file("item"))["value"].to_pylist())


def client_of(workdir: Path) -> MlflowClient:
    store = f"sqlite:///{workdir / 'mlflow.db'}"
    return MlflowClient(store, registry_uri=store)


def test_the_published_model_knows_the_items_of_the_last_day_and_the_judged_one_does_not(refitted: Run) -> None:
    artifacts = refitted.summary["artifacts"]
    assert NEW not in items_of(artifacts["model"]) and NEW in items_of(artifacts["refit_model"])
    judged, refit = (open_artifact(artifacts[name]).rows for name in ("tfrecord", "refit_tfrecord"))
    assert set(judged) == {"train", "validation", "test"} and set(refit) == {"train", "test"}
    assert refit["test"] == judged["test"]


def test_the_refit_is_the_champion_and_says_as_what_it_was_judged(refitted: Run, workdir: Path) -> None:
    summary = refitted.summary
    assert (summary["registered"]["version"], summary["refit"]["version"], summary["refit"]["alias"]) == (
        1,
        2,
        "champion",
    )
    score = summary["metrics"]["test_ndcg"]
    assert f"Version 1 was judged: test NDCG@10 {score:.4f}" in summary["refit"]["reason"]
    held = client_of(workdir).get_model_version_by_alias("kfrec-retrieval", "champion")
    assert (int(held.version), held.tags["kfrec.judged_as"]) == (2, "1")
    assert held.tags["kfrec.trained_on"].endswith(" samples until 2023-12-03 22:14")
    training = json.loads((Path(summary["artifacts"]["model"]) / "training.json").read_text())
    assert held.tags["kfrec.epochs"] == str(training["exported_epoch"])
    assert held.tags["kfrec.data"] == summary["artifacts"]["refit_tfrecord"]


def test_mlflow_shows_the_refit_in_a_run_of_its_own(refitted: Run, workdir: Path) -> None:
    client = client_of(workdir)
    judged = client.get_run(refitted.summary["mlflow"]["run_id"])
    held = client.get_model_version("kfrec-retrieval", "2")
    refit = client.get_run(str(held.run_id))
    assert refit.data.tags["mlflow.parentRunId"] == judged.info.run_id != refit.info.run_id
    assert refit.info.status == judged.info.status == "FINISHED"
    assert "validation_ndcg" in judged.data.metrics and "validation_ndcg" not in refit.data.metrics
    assert refit.data.params["epochs"] == held.tags["kfrec.epochs"]


def test_lists_come_from_the_refit(refitted: Run, workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recommend", "u1", "--model=last", "--top=30", f"--workdir={workdir}", "--keep-seen"]) == 0
    assert NEW in capsys.readouterr().out


def test_a_refit_that_failed_is_resumed_from_its_checkpoints_and_finished_steps(
    source: Path, tmp_path: Path, in_process: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def fails_the_second_time(results: Any) -> dict[str, int]:
        calls.append(results)
        if len(calls) == 2:
            raise KfrecError("the disk is full")
        return trained_rows(results)

    def fails(*given: Any) -> Any:
        raise KfrecError("the registry is full")

    monkeypatch.setattr("components.train.step.trained_rows", fails_the_second_time)
    failed = in_process(tmp_path / "runs", *words(source, epochs=1))
    assert failed.status and "refit train: the disk is full" in failed.err
    with monkeypatch.context() as patch:
        patch.setattr("components.register.step.publish", fails)
        failed = in_process(tmp_path / "runs", "--resume=last")
    assert "refit train resumes from " in failed.err and "refit tfrecord done" not in failed.err
    assert failed.status and "refit register: the registry is full" in failed.err
    assert "the refit is not published: kfrec-retrieval version 1, which was judged, is served until then" in failed.err
    resumed = in_process(tmp_path / "runs", "--resume=last")
    assert resumed.summary["refit"]["version"] == 2
    assert "refit register done" in resumed.err and "refit train done" not in resumed.err
    held = client_of(tmp_path / "runs").get_model_version_by_alias("kfrec-retrieval", "champion")
    assert held.tags["kfrec.judged_as"] == "1"


def test_without_refit_the_judged_model_is_published(
    source: Path, tmp_path: Path, in_process: Callable[..., Run]
) -> None:
    run = in_process(tmp_path / "runs", *words(source, refit="false", epochs=1))
    assert run.summary["refit"] == {} and "refit_model" not in run.summary["artifacts"]
    assert (run.summary["registered"]["version"], run.summary["registered"]["alias"]) == (1, "champion")
    assert [int(held.version) for held in client_of(tmp_path / "runs").search_model_versions()] == [1]
