"""Retraining as a schedule does it, night after night, through the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from components.checks import PROFILE
from components.checks.profile import read_profile
from components.download.step import run as download
from components.steps.catalog import STEPS
from tests.pipelines.conftest import Run

pytestmark = pytest.mark.slow

SMALL = {
    "embedding_dim": 4, "epochs": 1, "shortest_sequence_for_user": 8, "max_sequence_length": 20,
    "global_batch_size": 256, "auc_floor": 0.4, "require_baseline": "false", "train_seed": 1, "bootstrap_samples": 100,
    "preprocess_workers": 1, "tfrecord_workers": 1, "refit": "false",
}  # fmt: skip


@pytest.fixture
def retrain(tmp_path: Path, in_process: Callable[..., Run]) -> Callable[..., str]:
    """A retraining; returns the last line that it says."""

    def run(prefix: Path, **values: Any) -> str:
        given = {**SMALL, "data_prefix": str(prefix), "registered_model": "nightly", **values}
        arguments = [word for name, value in given.items() for word in ("--set", f"{name}={value}")]
        ended = in_process(tmp_path / "runs", "--model=din", "--pipeline=retraining", *arguments)
        assert ended.status == 0, ended.err
        return ended.out.splitlines()[-1]

    return run


def summary(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text())


def test_the_next_night_is_compared_with_the_judged_twin_of_a_refit_and_starts_from_it(
    tmp_path: Path, retrain: Callable[..., str]
) -> None:
    prefix = tmp_path / "logs"
    download(STEPS["download"].of(synthetic_users=300, synthetic_items=300), raw=prefix / "2026-11-09")
    first = summary(retrain(prefix, refit="true"))
    assert (first["registered"]["version"], first["refit"]["version"]) == (1, 2)
    assert retrain(prefix, refit="true").startswith("Nothing is new: 2026-11-09 is the newest data version")

    download(STEPS["download"].of(synthetic_users=380, synthetic_items=300), raw=prefix / "2026-11-10")
    second = summary(retrain(prefix, warm_start="true", refit="true"))
    noted = registration(second)
    assert (noted["version"], noted["champion_version_before"]) == (3, 2)
    judged, fetched = (
        (Path(folder) / "vocabulary" / "item.parquet").read_bytes()
        for folder in (first["artifacts"]["model"], second["artifacts"]["champion"])
    )
    assert fetched == judged


def registration(found: dict[str, Any]) -> dict[str, Any]:
    return json.loads((Path(found["artifacts"]["registration"]) / "registration.json").read_text())


def test_night_after_night(tmp_path: Path, retrain: Callable[..., str]) -> None:
    prefix, workdir = tmp_path / "logs", tmp_path / "runs"
    download(STEPS["download"].of(synthetic_users=300, synthetic_items=300), raw=prefix / "2026-11-09")
    first = summary(retrain(prefix))
    assert set(first["steps"]) == {"find", "download", "preprocess", "tfrecord", "train", "evaluate", "register"}
    assert (first["registered"]["version"], first["registered"]["alias"]) == (1, "champion")
    noted = registration(first)
    assert noted["occasion"] == "Data version 2026-11-09: there is no champion yet."
    assert (noted["data_version"], noted["vocabulary"]) == ("2026-11-09", "fitted")

    # Nothing new: a plain statement, a good exit, and no run of the other steps.
    statement = "Nothing is new: 2026-11-09 is the newest data version, and a model was trained on it already."
    assert retrain(prefix) == statement

    # Larger, and so many new items that the old vocabulary would say little: a new one is fitted, training starts from
    # the champion's weights for what both know, and champion and challenger are judged on the same new samples.
    download(STEPS["download"].of(synthetic_users=380, synthetic_items=500), raw=prefix / "2026-11-10")
    second = summary(retrain(prefix, warm_start="true"))
    noted = registration(second)
    assert noted["version"] == 2 and noted["champion_version_before"] == 1
    assert noted["data_version"] == "2026-11-10" and noted["rows"] > registration(first)["rows"]
    assert noted["vocabulary"] == "refitted" and noted["out_of_vocabulary_rate"] > 0.05
    assert "rows that the champion's 2026-11-09 lacks" in noted["occasion"]
    assert noted["champion_score"] > 0.4 and "on the same samples" in noted["reason"]
    # The raw data were compared with those of the champion.
    profile = read_profile(Path(second["artifacts"]["model"]) / PROFILE)
    assert profile is not None and profile.compared
    log = (Path(second["artifacts"]["model"]) / "worker.log").read_text()
    assert " rows of embeddings" in log
    client = MlflowClient(f"sqlite:///{workdir / 'mlflow.db'}", registry_uri=f"sqlite:///{workdir / 'mlflow.db'}")
    tags = client.get_model_version("nightly", "2").tags
    assert (tags["kfrec.data_version"], tags["kfrec.vocabulary"]) == ("2026-11-10", "refitted")
    assert client.get_run(noted["run_id"]).data.metrics["data.new.reviews.asin"] > 0.05
    assert client.get_run(noted["run_id"]).data.tags["kfrec.occasion"] == noted["occasion"]
