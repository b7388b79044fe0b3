"""Workers on object storage: real processes, the emulators' real protocols."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.published import PUBLISHED
from components.artifacts.remote import fetch_artifact, open_remote, publish_remote
from components.errors import KfrecError
from components.feature_spec import load_feature_spec
from components.steps.catalog import TfrecordParameters, WorkerParameters
from components.tfrecord.step import run as convert
from components.train.launching.launch import LocalLauncher, run_processes
from components.train.loop.data import open_data
from components.train.loop.ranks import Alone
from components.train.staging import stage_records
from components.training_log import read_log
from tests.fakes.object_stores import BUCKET
from tests.train.dataset import write_dataset
from tests.train.in_process import run_worker
from tests.train.ranks import QUICK
from tests.waiting import wait_for

# DIN, the model that is traced and exported soonest: what it computes is not what these tests are about.
SETTINGS = dict(model_type="din", global_batch_size=20, embedding_dim=4, seed=7, epochs=2, patience=0, **PUBLISHED)


class OneOfFour(Alone):
    """One of four ranks."""

    size = local_size = 4

    def __init__(self, rank: int) -> None:
        self.rank = rank


def arguments(uri: str, stage: Path, **changed: Any) -> list[str]:
    settings = {**SETTINGS, "stage_dir": stage, **changed}
    places = [f"--dataset_dir={uri}/tfrecord", f"--results_dir={uri}/model"]
    return [*places, *(f"--{name}={value}" for name, value in settings.items())]


def train_with_two(uri: str, stage: Path, **changed: Any) -> tuple[int, list[str]]:
    """Trains with two ranks; the exit status, and what they wrote to stderr."""
    launcher, told = LocalLauncher("gloo"), list[str]()
    with launcher.environments(2) as environments:
        words = launcher.command(2, arguments(uri, stage, **changed))
        status = run_processes(
            words,
            [environment | QUICK for environment in environments],
            lambda rank, stream, text: told.append(text) if stream == "stderr" else None,
        )
    return status, told


def train_here(uri: str, stage: Path, **changed: Any) -> str:
    """Trains in this process; what the worker said."""
    log = stage.with_suffix(".log")
    run_worker(arguments(uri, stage, **{"checkpoint_steps": 10, **changed}), log)
    return log.read_text()


def losses(log: Path) -> np.ndarray:
    return np.array([record["data"]["loss"] for record in read_log(log) if len(record["step"]) == 2])


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_dataset(tmp_path_factory.mktemp("data") / "tfrecord", train=1210, validation=251)


@pytest.mark.slow
def test_a_training_reads_from_and_writes_to_gcs_and_goes_on_after_it_was_killed(
    dataset: Path, gcs_bucket: Any, tmp_path: Path
) -> None:
    uri = f"gs://{BUCKET}/run"
    publish_remote(dataset, f"{uri}/tfrecord")
    train_here(uri, tmp_path / "whole")
    model = fetch_artifact(f"{uri}/model", tmp_path / "model")
    assert model.inputs == {"tfrecord": open_remote(f"{uri}/tfrecord").digest}
    assert model.rows == {"train": 2420, "validation": 251}
    names = {entry.path for entry in model.files}
    assert {"training.json", "log.json", "parameters.json", "feature_spec.yaml", "checkpoint/checkpoint"} <= names
    assert any(name.startswith("saved_model/") for name in names)
    # Once more: the results are there already.
    assert "holds the results of this run already" in train_here(uri, tmp_path / "again")

    # The same run elsewhere is killed after its first checkpoints, and started again on another disk.
    other = f"gs://{BUCKET}/other"
    publish_remote(dataset, f"{other}/tfrecord")
    launcher = LocalLauncher("gloo")
    words = launcher.command(1, arguments(other, tmp_path / "first", checkpoint_steps=10))
    environment = os.environ | launcher.environment() | QUICK
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    kept = gcs_bucket.blob("other/model/checkpoint/checkpoint")
    wait_for(lambda: process.poll() is not None or kept.exists())
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not gcs_bucket.blob("other/model/_manifest.json").exists()
    assert "resuming from the checkpoint" in train_here(other, tmp_path / "second")
    fetch_artifact(f"{other}/model", tmp_path / "resumed")
    # The log goes on where the checkpoint was, and the curve is that of the run that was never killed.
    np.testing.assert_allclose(
        losses(tmp_path / "resumed" / "log.json"), losses(tmp_path / "model" / "log.json"), atol=1e-4
    )
    results = [json.loads((tmp_path / name / "training.json").read_text()) for name in ("model", "resumed")]
    assert results[0]["validation_auc"] == pytest.approx(results[1]["validation_auc"], abs=1e-3)

    # Another one continues the weights and moments of the epoch that is exported, of two with 61 steps.
    later = f"gs://{BUCKET}/later"
    publish_remote(dataset, f"{later}/tfrecord")
    said = train_here(later, tmp_path / "third", epochs=1, continue_path=f"{uri}/model")
    assert f"continuing the weights and moments of {uri}/model after {61 * results[0]['exported_epoch']} steps" in said


@pytest.mark.slow
def test_two_ranks_train_sharded_tables_on_s3(s3_client: Any, tmp_path: Path) -> None:
    uri = f"minio://{BUCKET}/run"
    publish_remote(write_dataset(tmp_path / "tfrecord", train=210, validation=40), f"{uri}/tfrecord")
    status, told = train_with_two(uri, tmp_path / "stage", epochs=1, checkpoint_steps=8, table_placement="rows")
    assert status == 0, told
    model = fetch_artifact(f"{uri}/model", tmp_path / "model").path
    assert json.loads((model / "training.json").read_text())["workers"] == 2
    # Of the newest checkpoint each rank's part of the tables and of two moments, and of the one before it none.
    parts = {file.name for file in (model / "checkpoint").glob("*.npy")}
    assert parts == {f"ckpt-11.table-{n}.{rank}.npy" for n in range(3) for rank in range(2)}
    stored = [entry["Key"] for entry in s3_client.list_objects_v2(Bucket=BUCKET, Prefix="run/")["Contents"]]
    assert not [key for key in stored if "ckpt-8.table" in key]


@pytest.mark.slow
def test_data_that_is_not_there_is_one_line_for_all_ranks(gcs_bucket: Any, tmp_path: Path) -> None:
    status, lines = train_with_two(f"gs://{BUCKET}/none", tmp_path)
    told = [line for line in lines if "error: train:" in line]
    assert status != 0
    assert len(told) == 1 and "none/tfrecord/_manifest.json: missing, so the artifact is unfinished" in told[0]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4,096 samples in eight files."""
    from benchmarks.samples import write_samples

    folder = tmp_path_factory.mktemp("shards")
    parquet = write_samples(folder / "parquet", 4096, 100)
    convert(TfrecordParameters(samples_per_shard=512), parquet=parquet, tfrecord=folder / "tfrecord")
    return folder / "tfrecord"


@pytest.fixture
def sharded(shards: Path, gcs_bucket: Any) -> str:
    """Their URI."""
    publish_remote(shards, f"gs://{BUCKET}/sharded")
    return f"gs://{BUCKET}/sharded"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("node", "share", "expected"),
    [
        ([0, 1], 0.0, [0, 1, 2, 3]),
        ([2, 3], 0.0, [4, 5, 6, 7]),
        ([0, 1, 2, 3], 0.0, list(range(8))),
        # Seven eighths train; every rank validates on samples of the last file.
        ([0, 1], 0.125, [0, 1, 2, 3, 7]),
        ([2, 3], 0.125, [3, 4, 5, 6, 7]),
    ],
)
def test_a_node_stages_only_the_files_of_its_ranks(
    sharded: str, tmp_path: Path, node: list[int], share: float, expected: list[int]
) -> None:
    folder = tmp_path / "stage"
    parameters = WorkerParameters(global_batch_size=64, validation_share=share)
    stage_records(sharded, folder, parameters, node, 4)
    staged = {path.name for path in (folder / "train").iterdir()}
    assert staged == {name for n in expected for name in (f"part_{n}.tfrecord", f"part_{n}.tfrecord.index")}
    assert not list(folder.glob("test/*"))  # a training never reads them
    data = open_data(load_feature_spec(folder), parameters, OneOfFour(node[0]), ("uid",))
    assert data.train.rows + (data.scored.rows if data.scored is not None else 0) == 4096
    for batch in (*data.training_batches(1, 0), *data.scored_batches()):
        assert len(batch["uid"]) == 16


def test_an_evaluation_stages_the_test_split(sharded: str, tmp_path: Path) -> None:
    parameters = WorkerParameters(global_batch_size=64, mode="inference")
    stage_records(sharded, tmp_path / "stage", parameters, [0], 1)
    assert all(path.is_file() for path in load_feature_spec(tmp_path / "stage").files("test"))


def test_a_disk_that_is_too_small_is_told_in_one_line(
    sharded: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Small:
        f_bavail, f_frsize = 100, 4096

    monkeypatch.setattr("components.artifacts.remote.os.statvfs", lambda path: Small)
    with pytest.raises(KfrecError, match=r"stage: needs .* GB and has 0\.00 GB free; give it a larger disk"):
        stage_records(sharded, tmp_path / "stage", WorkerParameters(global_batch_size=64), [0], 1)
