"""The registered models, and which of them is the champion."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import pytest
from mlflow import MlflowClient

from components.register.gate import Decision
from components.tracking.champion import DATA_VERSION, JUDGED_AS, ROWS
from components.tracking.standing import DECISION
from pipelines.cli import main
from pipelines.defaults import Pipeline
from pipelines.runs.record import RunRecord


@pytest.fixture
def workdir(tmp_path: Path, empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs, whose versions of the model nightly were champions one after the other; then one of failed."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    workdir = tmp_path / "runs"
    workdir.mkdir()
    shutil.copy(empty_database, workdir)
    uri = f"sqlite:///{workdir / 'mlflow.db'}"
    client = MlflowClient(uri, uri)
    experiment = client.create_experiment("nights", (tmp_path / "artifacts").as_uri())
    client.create_registered_model("nightly")
    for number in (1, 2, 3):
        tracked = client.create_run(experiment).info.run_id
        client.log_param(tracked, "register.model_type", "din")
        client.log_param(tracked, "register.task", "click")
        for name, value in (("test_auc_low", 0.6), ("test_auc_high", 0.8)):
            client.log_metric(tracked, name, value)
        decision = json.dumps(asdict(Decision("champion", "", "test_auc", 0.7 + number / 100)) | {"basis": ""})
        tags = {DATA_VERSION: f"2026-11-0{number}", ROWS: str(1000 * number), DECISION: decision}
        tags |= {JUDGED_AS: "2"} if number == 3 else {}
        client.create_model_version("nightly", f"{tmp_path}", tracked, tags=tags)
        add_run(workdir, f"2026110{number}", uri, {"model": "nightly", "version": number, "alias": "champion"})
    client.set_registered_model_alias("nightly", "champion", "2")
    add_run(workdir, "20261104", uri, {})
    return workdir


def add_run(workdir: Path, name: str, uri: str, registered: Mapping[str, object]) -> None:
    run = RunRecord(workdir / name, Pipeline(model="din"), {}, uri, started=1.0)
    run.folder.mkdir()
    run.write()
    body = {"parameters": {}, "metrics": {}, "registered": registered}
    (run.folder / "summary.json").write_text(json.dumps(body))


def test_registered_models_are_listed_with_what_they_are(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--workdir", str(workdir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    of_model = [line for line in lines if line.startswith("nightly ")]
    assert [line.split()[1] for line in of_model] == ["1", "2", "3"]
    assert ["champion" in line for line in of_model] == [False, True, False]
    assert "din" in of_model[1] and "2026-11-02 (2,000 rows)" in of_model[1]
    assert of_model[1].endswith("test AUC 0.7200 (0.6000 to 0.8000)") and "refit of version 2" in of_model[2]
    assert "take nightly@champion by default, as run 20261103 is the newest with a model" in lines[-1]


def test_scripts_get_json(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--json", "--workdir", str(workdir)]) == 0
    versions = json.loads(capsys.readouterr().out)
    assert [(held["version"], held["aliases"]) for held in versions] == [(1, []), (2, ["champion"]), (3, [])]
    assert versions[0]["interval"] == [0.6, 0.8]


def test_a_champion_that_was_deleted_is_no_default(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    uri = f"sqlite:///{workdir / 'mlflow.db'}"
    MlflowClient(uri, uri).delete_model_version("nightly", "2")
    assert main(["models", "--workdir", str(workdir)]) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == "there is no nightly@champion now; name a version to kfrec recommend, predict and serve"


def test_runs_call_only_the_champion_champion(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "--workdir", str(workdir)]) == 0
    verdicts = [line.partition("version ")[2] for line in capsys.readouterr().out.splitlines()[1:4]]
    assert verdicts == ["1, former champion", "2, champion", "3, former champion"]


def test_of_a_server_the_newest_runs_have_the_aliases(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, alias in ((5, "champion"), (6, "challenger"), (7, "champion"), (8, "challenger")):
        registered = {"model": "nightly", "version": number, "alias": alias}
        add_run(workdir, f"2026110{number}", "https://mlflow.example.org", registered)
    assert main(["runs", "--json", "--workdir", str(workdir)]) == 0
    aliases = [run["alias"] for run in json.loads(capsys.readouterr().out)]
    assert aliases[:4] == ["former champion", "champion", "former champion", None]
    assert aliases[4:] == ["former champion", "former challenger", "champion", "challenger"]


@pytest.mark.parametrize(
    "words", [["recommend", "u1", "--history=i1"], ["serve"], ["predict", "--input={rows}", "--output=out.csv"]]
)
def test_without_a_model_the_newest_runs_champion_is_taken(
    words: list[str], workdir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("user,item\n")
    words = [word.format(rows=rows) for word in words]
    assert main([*words, "--workdir", str(workdir)]) == 2
    said = capsys.readouterr()
    assert "model: nightly@champion, since run 20261103 is the newest with a registered model" in said.out
    assert "nightly@champion: version 2: its files" in said.err


def test_without_a_registered_model_one_is_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    add_run(tmp_path / "runs", "20261101", "", {})
    assert main(["recommend", "u1"]) == 2
    assert "runs: no run here has registered a model; name one, see kfrec models" in capsys.readouterr().err
