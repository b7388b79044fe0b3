from __future__ import annotations

from pathlib import Path

import pytest
from mlflow import MlflowClient

from components.find.step import run
from components.progress import EVENTS, parse_event
from components.steps.catalog import STEPS


def test_a_champion_without_its_model_is_left_out(
    tmp_path: Path, store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A training that starts from such a folder fails, night after night."""
    (tmp_path / "logs" / "v1").mkdir(parents=True)
    for name in ("reviews_A.json", "meta_A.json"):
        (tmp_path / "logs" / "v1" / name).write_text("{}\n")
    client = MlflowClient(store, store)
    kept = client.create_run(client.create_experiment("without-its-model", (tmp_path / "artifacts").as_uri())).info
    client.log_text(kept.run_id, "a\n", "model/artifacts/vocabulary/item.txt")
    client.create_registered_model("without-its-model")
    client.create_model_version("without-its-model", f"{kept.artifact_uri}/model", kept.run_id)
    client.set_registered_model_alias("without-its-model", "champion", "1")

    parameters = dict(data_prefix=str(tmp_path / "logs"), registered_model="without-its-model", warm_start=True)
    found = run(STEPS["find"].of(**parameters), champion=tmp_path / "champion")
    assert (found["proceed"], found["warm_start_path"], found["workflow"]) == (True, "", "")
    assert "champion version 1: its files lack saved_model; continuing without it" in capsys.readouterr().out


def test_a_skipped_folder_is_a_warning(
    tmp_path: Path, store: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without it, a nightly run that waits for a failed upload says only that nothing is new."""
    for version, names in (("v1", ("reviews_A.json", "meta_A.json")), ("v2", ("reviews_A.json",))):
        (tmp_path / "logs" / version).mkdir(parents=True)
        for name in names:
            (tmp_path / "logs" / version / name).write_text("{}\n")
    monkeypatch.setenv(EVENTS, "1")
    parameters = dict(data_prefix=str(tmp_path / "logs"), registered_model="skips-a-folder")
    assert run(STEPS["find"].of(**parameters), champion=tmp_path / "champion")["data_version"] == "v1"
    events = [event for line in capsys.readouterr().out.splitlines() if (event := parse_event(line)) is not None]
    message = f"{tmp_path}/logs/v2: skipped, it has no meta_*.json or meta_*.json.gz"
    assert message in [event["message"] for event in events if event["kfrec"] == "warning"]


@pytest.mark.parametrize(
    ("tags", "why"),
    [
        ({"kfrec.data_version": "n0"}, "since the champion's version is one file, of which a part tested it and"),
        ({"kfrec.data_version": "n1"}, "since the champion's checkpoints are not at a known place any more"),
        ({"kfrec.data_version": "n1", "kfrec.vocabulary": "grown"}, "as once in 2 nights"),
        ({}, "since there is no version after the champion's to continue with"),
    ],
)
def test_a_night_that_cannot_continue_the_champion_trains_on_everything(
    tmp_path: Path, store: str, tags: dict[str, str], why: str
) -> None:
    for day in range(3):
        (tmp_path / "logs" / f"n{day}").mkdir(parents=True)
        (tmp_path / "logs" / f"n{day}" / f"day_{day}").write_text(f"{day}\n")
    name, client = f"nights {len(why)}", MlflowClient(store, store)
    kept = client.create_run(client.create_experiment(name, (tmp_path / "artifacts").as_uri())).info
    for file in ("vocabulary/cat_1.seen.parquet", "saved_model/saved_model.pb"):
        client.log_text(kept.run_id, "a\n", f"model/artifacts/{file}")
    client.create_registered_model(name)
    client.create_model_version(name, f"{kept.artifact_uri}/model", kept.run_id, tags=tags)
    client.set_registered_model_alias(name, "champion", "1")

    given = {"model_type": "dlrm", "dataset": "criteo", "registered_model": name, "full_every": 2}
    found = run(STEPS["find"].of(data_prefix=str(tmp_path / "logs"), **given), champion=tmp_path / "champion")
    assert found["proceed"] and f"All 3 versions train, {why}" in found["occasion"]
    assert (found["files"], found["workflow"], found["continue_path"]) == ("n0/day_0,n1/day_1,n2/day_2", "", "")
    assert found["source"] == str(tmp_path / "logs")


def test_a_night_of_histories_continues_a_champion_of_the_first_file(tmp_path: Path, store: str) -> None:
    for version in ("all of last year", "today"):
        (tmp_path / "logs" / version).mkdir(parents=True)
        (tmp_path / "logs" / version / f"{version}.csv").write_text(f"user,item,timestamp\n{version},a,1\n")
    name, client = "first file", MlflowClient(store, store)
    kept = client.create_run(client.create_experiment(name, (tmp_path / "artifacts").as_uri())).info
    for file in ("vocabulary/item.seen.parquet", "saved_model/saved_model.pb"):
        client.log_text(kept.run_id, "a\n", f"model/artifacts/{file}")
    (tmp_path / "model" / "checkpoint").mkdir(parents=True)
    (tmp_path / "model" / "checkpoint" / "checkpoint").touch()
    tags = {"kfrec.data_version": "all of last year", "kfrec.model": str(tmp_path / "model")}
    client.create_registered_model(name)
    client.create_model_version(name, f"{kept.artifact_uri}/model", kept.run_id, tags=tags)
    client.set_registered_model_alias(name, "champion", "1")

    given = {"model_type": "sasrec", "dataset": "events", "registered_model": name, "full_every": 7}
    found = run(STEPS["find"].of(data_prefix=str(tmp_path / "logs"), **given), champion=tmp_path / "champion")
    assert found["occasion"].endswith("The training continues version 1 with all of last year to today.")
    assert found["continue_path"] == str(tmp_path / "model")
    assert found["files"] == "all of last year/all of last year.csv,today/today.csv"
