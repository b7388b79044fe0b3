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
