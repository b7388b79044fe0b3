"""DLRM in an MPIJob that loses its workers for good: real workers over MPI, records and model in object storage."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from components.artifacts.remote import fetch_artifact, publish_remote
from components.train.loop.log import read_log
from tests.fakes.object_stores import BUCKET
from tests.train.displays import write_displays
from tests.train.loop.table_models import MODELS, options
from tests.train.mpijob.conftest import TRAINING, Place
from tests.train.mpijob.test_launcher import in_background
from tests.waiting import wait_for

SETTINGS = MODELS["dlrm"] | dict(model_type="dlrm", global_batch_size=20, seed=7, epochs=3, checkpoint_steps=20)


def arguments(uri: str) -> list[str]:
    places = [f"--dataset_dir={uri}/tfrecord", f"--results_dir={uri}/model", "--stage_dir=/stage"]
    return [*places, *options(SETTINGS)]


def weights(model: Path) -> dict[str, np.ndarray]:
    """What is exported, whose tables are whole, and what the checkpoint says of all else."""
    found: dict[str, np.ndarray] = {}
    for kept in ("saved_model/variables/variables", "checkpoint"):
        reader = tf.train.load_checkpoint(str(model / kept))
        kinds = reader.get_variable_to_dtype_map()
        found |= {f"{kept}: {name}": reader.get_tensor(name) for name, kind in kinds.items() if kind.is_floating}
    return found


def newest_checkpoint(bucket: Any, run: str) -> int:
    blob = bucket.blob(f"{run}/model/checkpoint/checkpoint")
    return int(blob.download_as_bytes().decode().split('"')[1].removeprefix("ckpt-")) if blob.exists() else 0


@pytest.mark.slow
def test_a_training_that_loses_two_workers_ends_with_the_model_of_one_that_lost_none(
    place: Callable[..., Place], gcs_bucket: Any, tmp_path: Path
) -> None:
    here = place(None)
    dataset = write_displays(tmp_path / "displays", train=300, test=100)
    for run in ("whole", "lossy"):
        publish_remote(dataset, f"gs://{BUCKET}/{run}/tfrecord")
    here.launcher().run(2, arguments(f"gs://{BUCKET}/whole"), tmp_path / "whole.log")
    here.api.delete_job(f"{TRAINING}-1")
    wait_for(lambda: not here.api.jobs)

    joined = in_background(
        lambda: here.launcher(restarts=2).run(2, arguments(f"gs://{BUCKET}/lossy"), tmp_path / "lossy.log")
    )
    seen = 0
    for attempt in (1, 2):
        wait_for(lambda: newest_checkpoint(gcs_bucket, "lossy") > seen)  # noqa: B023
        seen = newest_checkpoint(gcs_bucket, "lossy")
        here.operator.lose(f"{TRAINING}-{attempt}-worker-1", "Terminated", "the node was reclaimed")
    assert joined() is None

    assert here.operator.tries == 1 + 3 and here.api.live_jobs() == [f"{TRAINING}-3"]
    assert (tmp_path / "lossy.log").read_text().count("resuming from the checkpoint") == 2
    whole, lossy = (fetch_artifact(f"gs://{BUCKET}/{run}/model", tmp_path / run).path for run in ("whole", "lossy"))
    losses = [
        [record["data"]["loss"] for record in read_log(model / "log.json") if len(record["step"]) == 2]
        for model in (whole, lossy)
    ]
    np.testing.assert_allclose(losses[1], losses[0], atol=1e-5)
    expected, found = weights(whole), weights(lossy)
    assert expected.keys() == found.keys() and expected
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-5, err_msg=name)
    results = [json.loads((model / "training.json").read_text()) for model in (whole, lossy)]
    assert [result["workers"] for result in results] == [2, 2] and results[0]["validation_auc"] > 0.5
    assert results[1]["validation_auc"] == pytest.approx(results[0]["validation_auc"], abs=1e-3)
