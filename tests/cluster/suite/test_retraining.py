"""A retraining on a second folder of data: warm start, drift, report, and what the registry says of it."""

from __future__ import annotations

from pathlib import Path

from mlflow import MlflowClient

from components.download.step import run as download
from components.steps.catalog import STEPS
from pipelines.defaults import RETRAINING, Pipeline
from tests.cluster.steps import BUCKET, Place, Run
from tests.cluster.suite.conftest import VALUES, read, store

_NEWEST = "2026-11-26"


def test_a_retraining_on_a_second_folder_starts_from_the_champion_and_reports_drift(
    place: Place, registered: Run, tracked: MlflowClient, tmp_path: Path
) -> None:
    download(STEPS["download"].of(synthetic_users=150, synthetic_items=300), raw=tmp_path / "raw")
    for file in (tmp_path / "raw").glob("*.gz"):
        store().upload_file(str(file), BUCKET, f"logs/{_NEWEST}/{file.name}")
    values = VALUES | {"data_prefix": f"s3://{BUCKET}/logs", "force": True, "warm_start": True, "epochs": 1}
    run = Run(place, Pipeline(RETRAINING, "din"), {name: values[name] for name in values if name != "synthetic_users"})
    run.step("find")
    found = run.results("find")
    assert found["proceed"] is True and found["data_version"] == _NEWEST
    assert found["workflow"] == found["warm_start_path"] != ""
    run.step("download")
    assert "data check: reviews: " in run.step("preprocess")
    run.step("tfrecord")
    assert f"starting from the weights of {found['warm_start_path']}" in run.step("train")
    run.step("evaluate")
    assert "Data checks" in read(run.uri("evaluate", "report")).decode()
    run.step("register")
    (version,) = tracked.search_model_versions(f"tags.`kfrec.data_version` = '{_NEWEST}'")
    assert version.source
