"""DLRM in an MPIJob that loses a worker for good: real workers over MPI, records and model in object storage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
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


def prepare(folder: Path) -> Sequence[Any]:
    """The displays, and a training that loses no worker."""
    data = write_displays(folder / "displays", train=300, test=100)
    (folder / "whole").mkdir()
    return [{"whole": [f"--dataset_dir={data}", f"--results_dir={folder / 'whole'}", *options(SETTINGS)]}]


def weights(model: Path) -> dict[str, np.ndarray]:
    """What is exported, whose tables are whole, and what the checkpoint says of all else."""
    found: dict[str, np.ndarray] = {}
    for kept in ("saved_model/variables/variables", "checkpoint"):
        reader = tf.train.load_checkpoint(str(model / kept))
        kinds = reader.get_variable_to_dtype_map()
        found |= {f"{kept}: {name}": reader.get_tensor(name) for name, kind in kinds.items() if kind.is_floating}
    return found


@pytest.mark.slow
def test_a_training_that_loses_a_worker_ends_with_the_model_of_one_that_lost_none(
    place: Callable[..., Place], gcs_bucket: Any, two_ranks: Path, tmp_path: Path
) -> None:
    here, uri, whole = place(None), f"gs://{BUCKET}/lossy", two_ranks / __name__ / "whole"
    publish_remote(two_ranks / __name__ / "displays" / "tfrecord", f"{uri}/tfrecord")
    places = [f"--dataset_dir={uri}/tfrecord", f"--results_dir={uri}/model", "--stage_dir=/stage"]
    joined = in_background(
        lambda: here.launcher(restarts=1).run(2, [*places, *options(SETTINGS)], tmp_path / "lossy.log")
    )
    wait_for(gcs_bucket.blob("lossy/model/checkpoint/checkpoint").exists)
    here.operator.lose(f"{TRAINING}-1-worker-1", "Terminated", "the node was reclaimed")
    assert joined() is None

    assert here.operator.tries == 2 and here.api.live_jobs() == [f"{TRAINING}-2"]
    assert (tmp_path / "lossy.log").read_text().count("resuming from the checkpoint") == 1
    lossy = fetch_artifact(f"{uri}/model", tmp_path / "lossy").path
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
