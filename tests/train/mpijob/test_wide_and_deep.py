"""DLRM and Wide & Deep in an MPIJob: two real workers over MPI, records and model in object storage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.remote import publish_remote
from tests.fakes.object_stores import BUCKET
from tests.train.displays import write_displays
from tests.train.loop.table_models import MODELS
from tests.train.mpijob.conftest import Place


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_displays(tmp_path_factory.mktemp("displays"), train=200, test=50)


@pytest.mark.slow
@pytest.mark.parametrize("model_type", MODELS)
def test_an_mpijob_trains_the_models_of_tables(
    model_type: str, records: Path, place: Callable[..., Place], gcs_bucket: Any, tmp_path: Path
) -> None:
    here, uri = place(None), f"gs://{BUCKET}/{model_type}"
    publish_remote(records, f"{uri}/tfrecord")
    given = {**MODELS[model_type], "model_type": model_type, "global_batch_size": 64, "epochs": 1, "seed": 7}
    words = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value) for name, value in given.items()
    }
    places = [f"--dataset_dir={uri}/tfrecord", f"--results_dir={uri}/model", "--stage_dir=/stage"]
    here.launcher().run(2, [*places, *(f"--{name}={value}" for name, value in words.items())], tmp_path / "worker.log")
    training = json.loads(gcs_bucket.blob(f"{model_type}/model/training.json").download_as_bytes())
    assert training["workers"] == 2 and training["test_auc"] > 0.5
    assert gcs_bucket.blob(f"{model_type}/model/saved_model/saved_model.pb").exists()
