"""The compiled pipeline on a cluster: KFP's launcher and executor, object storage, an MPIJob of two workers, MLflow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from mlflow import MlflowClient

from components.artifacts.remote import fetch_artifact, open_remote
from components.scoring import load_model
from components.steps.catalog import STEPS
from pipelines.defaults import PIPELINES, TRAINING, Pipeline
from tests.fakes.kfp_launcher import KfpLauncher
from tests.fakes.kubernetes_api import NAMESPACE
from tests.fakes.object_stores import BUCKET
from tests.train.mpijob.conftest import Place

ROOT = "pipelines/kfrec-training/run-1"
# What KFP copies for a step, both ways.
COPIED = 1_000_000
PARAMETERS: dict[str, dict[str, Any]] = {
    "download": {"synthetic_users": 150, "synthetic_items": 200},
    "preprocess": {"workers": 1, "max_sequence_length": 10, "negative_sequence_length": 4},
    "tfrecord": {"samples_per_shard": 2000},
    "train": {
        "workers": 2, "gpus_per_worker": 0, "global_batch_size": 200,
        "embedding_dim": 4, "epochs": 1, "seed": 7, "experiment": "cluster",
    },
    "evaluate": {"experiment": "cluster"},
    "register": {"experiment": "cluster", "registered_model": "of-the-cluster"},
}  # fmt: skip


@pytest.mark.slow
def test_the_pipeline_trains_in_an_mpijob_on_object_storage(
    place: Callable[..., Place],
    gcs_bucket: Any,
    store: str,
    compiled_ir: Callable[[Pipeline], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = place(None)  # the launcher runs what its container says
    for name, value in {"NAME": "train-pod", "UID": "pod-uid", "NAMESPACE": NAMESPACE}.items():
        monkeypatch.setenv(f"POD_{name}", value)
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run-1", "uid": "workflow-uid"}
    here.api.put_pod({"kind": "Pod", "metadata": {"name": "train-pod", "ownerReferences": [workflow]}})
    spec = next(yaml.load_all(compiled_ir(Pipeline(TRAINING, "din")), yaml.CSafeLoader))
    kfp = KfpLauncher(spec, gcs_bucket, ROOT, tmp_path / "pods")

    told = {step: kfp.run(step, monkeypatch, **PARAMETERS[step]) for step in PIPELINES[TRAINING]}

    # KFP moved manifests and small files; the data went to object storage and came from there.
    assert {step: copied.bytes for step, copied in kfp.copied.items() if copied.bytes > COPIED} == {}
    data = {blob.name: blob.size for blob in gcs_bucket.list_blobs(prefix=ROOT) if "/_data/" in blob.name}
    assert sum(data.values()) > COPIED
    assert not any("/_data/" in key for copied in kfp.copied.values() for key in copied.down)
    for step in PIPELINES[TRAINING]:
        for output in STEPS[step].outputs:
            uri = f"gs://{BUCKET}/{ROOT}/{step}/{output}"
            assert open_remote(uri).data_uri == f"gs://{BUCKET}/{ROOT}/{step}/_data/{output}"
            shown = told[step]["artifacts"][output]["artifacts"][0]
            assert (shown["uri"], shown["metadata"]["data"]) == (uri, open_remote(uri).data_uri)

    (job,) = here.api.jobs.values()
    assert job["metadata"]["ownerReferences"] == [workflow]
    assert {c["type"] for c in job["status"]["conditions"] if c["status"] == "True"} == {"Created", "Succeeded"}
    command = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    trained = f"gs://{BUCKET}/{ROOT}/train/_data/model"
    assert f"--results_dir={trained}" in command and command[5:8] == ["mpirun", "-np", "2"]
    model = fetch_artifact(f"gs://{BUCKET}/{ROOT}/train/model", tmp_path / "model")
    assert model.inputs == {"tfrecord": open_remote(f"gs://{BUCKET}/{ROOT}/tfrecord/tfrecord").digest}
    training = json.loads((tmp_path / "model" / "training.json").read_text())
    assert training["workers"] == 2 and training["validation_auc"] > 0.6
    assert set(load_model(tmp_path / "model").inputs) == {"uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos"}
    assert told["train"]["parameterValues"]["trained_model"] == trained
    assert told["train"]["parameterValues"]["metrics"]["validation_auc"] == pytest.approx(training["validation_auc"])

    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("cluster")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["validation_auc"] == pytest.approx(training["validation_auc"], abs=1e-4)
    assert run.data.tags["kfrec.pipeline_run"] == "run-1"
    assert client.get_registered_model("of-the-cluster").aliases
    report = f"{ROOT}/evaluate/report"
    assert report in kfp.copied["evaluate"].up and b"<html" in gcs_bucket.blob(report).download_as_bytes()[:200]
