"""Wide & Deep in an MPIJob: two real workers over MPI, records and model in object storage. DLRM: test_recovery.py."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.remote import fetch_artifact, publish_remote
from tests.fakes.object_stores import BUCKET
from tests.train.displays import write_displays
from tests.train.loop.table_models import MODELS, options
from tests.train.mpijob.conftest import Place


@pytest.mark.slow
def test_wide_and_deep_learns_in_an_mpijob(place: Callable[..., Place], gcs_bucket: Any, tmp_path: Path) -> None:
    here, uri = place(None), f"gs://{BUCKET}/run"
    publish_remote(write_displays(tmp_path / "displays", train=300, test=100), f"{uri}/tfrecord")
    given = {**MODELS["wide_and_deep"], "model_type": "wide_and_deep", "global_batch_size": 64, "epochs": 4, "seed": 7}
    places = [f"--dataset_dir={uri}/tfrecord", f"--results_dir={uri}/model", "--stage_dir=/stage"]
    here.launcher().run(2, [*places, *options(given)], tmp_path / "worker.log")
    model = fetch_artifact(f"{uri}/model", tmp_path / "model").path
    training = json.loads((model / "training.json").read_text())
    losses = [epoch["train_loss"] for epoch in training["epochs"]]
    assert losses == sorted(losses, reverse=True) and losses[-1] < 0.9 * losses[0]
    # One of 2 to 6 ads is clicked: below the loss of a model that knows the rate of clicks and nothing else.
    rate = 100 / training["validation_rows"]
    assert training["validation_logloss"] < -rate * math.log(rate) - (1 - rate) * math.log(1 - rate)
    assert training["validation_auc"] > 0.6
    assert training["workers"] == 2 and (model / "saved_model" / "saved_model.pb").exists()
