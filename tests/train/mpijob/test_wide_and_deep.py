"""Wide & Deep in an MPIJob: two real workers over MPI, records and model in object storage. DLRM: test_recovery.py."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.remote import publish_remote
from tests.fakes.object_stores import BUCKET
from tests.train.displays import write_displays
from tests.train.loop.table_models import MODELS, options
from tests.train.mpijob.conftest import Place


@pytest.mark.slow
def test_an_mpijob_trains_wide_and_deep(place: Callable[..., Place], gcs_bucket: Any, tmp_path: Path) -> None:
    here, uri = place(None), f"gs://{BUCKET}/run"
    publish_remote(write_displays(tmp_path / "displays", train=200, test=50), f"{uri}/tfrecord")
    given = {**MODELS["wide_and_deep"], "model_type": "wide_and_deep", "global_batch_size": 64, "epochs": 1, "seed": 7}
    places = [f"--dataset_dir={uri}/tfrecord", f"--results_dir={uri}/model", "--stage_dir=/stage"]
    here.launcher().run(2, [*places, *options(given)], tmp_path / "worker.log")
    training = json.loads(gcs_bucket.blob("run/model/training.json").download_as_bytes())
    assert training["workers"] == 2 and 0 < training["validation_auc"] < 1
    assert gcs_bucket.blob("run/model/saved_model/saved_model.pb").exists()
