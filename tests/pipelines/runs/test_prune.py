"""kfrec prune: what is old goes, but for what is needed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient

from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.runs.record import RunRecord, held

NAME = "shop"


@pytest.fixture
def client(empty_database: Path, tmp_path: Path) -> MlflowClient:
    """The store of ``tmp_path``."""
    shutil.copy(empty_database, tmp_path / "mlflow.db")
    return MlflowClient(f"sqlite:///{tmp_path / 'mlflow.db'}")


def version(client: MlflowClient, before: int | None = None, run: str = "", **tags: str) -> str:
    """A new version, which was compared with the champion ``before``."""
    if not client.search_registered_models():
        client.create_registered_model(NAME)
    run = run or client.create_run("0").info.run_id
    noted = {"kfrec.decision": json.dumps({"champion_version": before}), **{f"kfrec.{n}": v for n, v in tags.items()}}
    return str(client.create_model_version(NAME, f"file:///nowhere/{run}", run, tags=noted).version)


def run(workdir: Path, number: int, parameters: dict[str, str] | None = None, registered: int | None = None) -> Path:
    folder = workdir / f"2026112{number}-100000-aaaa"
    folder.mkdir()
    record = RunRecord(folder, Pipeline(), dict(parameters or {}), "sqlite:////x.db", started=number, state="finished")
    record.write()
    if registered:
        body = {"model": NAME, "version": registered, "alias": "champion"}
        (folder / "summary.json").write_text(json.dumps({"parameters": {}, "metrics": {}, "registered": body}))
    return folder


def pruned(workdir: Path, capsys: pytest.CaptureFixture[str], *words: str, keep: int = 0) -> list[str]:
    assert main(["prune", "--older-than=0", f"--keep={keep}", f"--workdir={workdir}", *words]) == 0
    return capsys.readouterr().out.splitlines()


def versions(client: MlflowClient) -> list[int]:
    return sorted(int(held.version) for held in client.search_model_versions(f"name = '{NAME}'"))


def test_the_champion_the_one_before_it_their_twins_and_every_alias_stay(
    client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version(client)  # 1: an old champion
    version(client, 1)  # 2: the twin of version 3
    version(client, 2, judged_as="2")  # 3: the champion before
    version(client, 3)  # 4: a challenger of before
    version(client, 3)  # 5: the twin of the champion
    version(client, 5, judged_as="5")  # 6: the champion
    version(client, 6)  # 7: the challenger
    for alias, number in (("champion", "6"), ("challenger", "7")):
        client.set_registered_model_alias(NAME, alias, number)
    assert pruned(tmp_path, capsys, "--dry-run") == [
        "shop version 7: stays, because it is the challenger",
        "shop version 6: stays, because it is the champion",
        "shop version 5: stays, because version 6 was judged as it",
        "shop version 4: goes",
        "shop version 3: stays, because it was the champion before",
        "shop version 2: stays, because version 3 was judged as it",
        "shop version 1: goes",
        "2 would be removed; nothing was",
    ]
    assert versions(client) == [1, 2, 3, 4, 5, 6, 7]
    assert pruned(tmp_path, capsys)[-1].startswith("2 removed; mlflow gc frees")
    assert versions(client) == [2, 3, 5, 6, 7]


def test_after_a_rollback_the_champion_before_it_is_one_that_nobody_rolled_back(
    client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version(client)
    version(client, 1, rolled_back_at="2026-11-28T10:00:00Z")
    version(client, 2)
    client.set_registered_model_alias(NAME, "champion", "3")
    said = pruned(tmp_path, capsys)
    assert "shop version 1: stays, because it was the champion before" in said and versions(client) == [1, 2, 3]


def test_the_mlflow_run_of_a_version_goes_unless_one_that_stays_is_of_it(
    client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, shared = (client.create_run("0").info.run_id for _ in range(2))
    for run_id in (own, shared, shared):
        version(client, run=run_id)
    pruned(tmp_path, capsys, keep=1)
    assert versions(client) == [3]
    assert [client.get_run(each).info.lifecycle_stage for each in (own, shared)] == ["deleted", "active"]


def test_newer_ones_stay_by_number_and_by_age(
    client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(4):
        version(client)
    runs = [run(tmp_path, number) for number in (1, 2, 3)]
    assert main(["prune", "--older-than=36500", "--keep=0", f"--workdir={tmp_path}"]) == 0
    assert capsys.readouterr().out.startswith("0 removed")
    pruned(tmp_path, capsys, keep=2)
    assert versions(client) == [3, 4] and [folder.exists() for folder in runs] == [False, True, True]


def test_a_run_stays_while_a_version_or_a_run_that_stays_reads_it(
    client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_champion, unneeded, vocabulary = run(tmp_path, 1), run(tmp_path, 2), run(tmp_path, 3)
    registering = run(tmp_path, 4, {"workflow": str(vocabulary / "model")}, registered=1)
    newest = run(tmp_path, 5)
    version(client, data=str(of_champion / "tfrecord"))
    client.set_registered_model_alias(NAME, "champion", "1")
    said = pruned(tmp_path, capsys, keep=1)
    assert f"run {of_champion.name}: stays, because shop version 1 reads its files" in said
    assert f"run {registering.name}: stays, because it registered shop version 1, which stays" in said
    assert f"run {vocabulary.name}: stays, because run {registering.name} reads its files" in said
    assert sorted(path.name for path in tmp_path.glob("2*")) == sorted(
        each.name for each in (of_champion, vocabulary, registering, newest)
    )
    assert not unneeded.exists() and not list(tmp_path.glob(".*"))


def test_a_running_run_stays(client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run(tmp_path, 1)
    with held(folder):
        record = RunRecord(folder, Pipeline(), {}, "sqlite:////x.db", state="running")
        record.write()
        assert pruned(tmp_path, capsys)[0] == f"run {folder.name}: stays, because it is running"
    assert folder.exists()


def test_numbers_below_0_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prune", "--keep=-1", f"--workdir={tmp_path}"]) == 2
    assert capsys.readouterr().err == "error: --older-than 30 --keep -1: give numbers from 0 on\n"


def test_versions_of_others_and_of_models_without_a_name_stay(
    client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version(client)
    client.create_registered_model("theirs")
    client.create_model_version("theirs", "file:///nowhere", client.create_run("0").info.run_id)
    assert pruned(tmp_path, capsys, "--model=theirs")[0].startswith("0 removed")
    assert main(["prune", f"--workdir={tmp_path}", "--model=lists"]) == 2
    assert "--model lists: no such registered model; kfrec models lists them" in capsys.readouterr().err
    assert pruned(tmp_path, capsys)[0] == f"{NAME} version 1: goes"
    assert [held.name for held in client.search_model_versions()] == ["theirs"]


def test_in_a_store_of_several_people_the_models_are_named(
    client: MlflowClient, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    version(client)
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    (tmp_path / "mine").mkdir()
    elsewhere = ("prune", "--older-than=0", "--keep=0", f"--workdir={tmp_path / 'mine'}", f"--tracking-uri={uri}")
    assert main(list(elsewhere)) == 2
    assert "others may use this store; name your registered models with --model" in capsys.readouterr().err
    assert main([*elsewhere, f"--model={NAME}"]) == 0
    assert versions(client) == []
