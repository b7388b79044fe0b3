"""The compiled pipeline's train step on a cluster: KFP's executor, object storage, an MPIJob of two workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp.dsl import executor
from kfp.dsl.types import artifact_types
from mlflow import MlflowClient

from components.artifacts.remote import fetch_artifact, open_remote, publish_remote
from components.scoring import load_model
from pipelines.compilation import compiled
from pipelines.task_settings import load_settings
from tests.fakes.kubernetes_api import NAMESPACE
from tests.fakes.object_stores import BUCKET
from tests.train.dataset import LONG, write_dataset
from tests.train.mpijob.conftest import Place

ROOT = f"gs://{BUCKET}/pipelines/kfrec-training/run-1"


def train_function(spec: dict[str, Any]) -> Callable[..., None]:
    """The function that the compiled step carries as text."""
    source = spec["deploymentSpec"]["executors"]["exec-train"]["container"]["command"][-1]
    module: dict[str, Any] = {}
    exec(compile(source, "exec-train", "exec", dont_inherit=True), module)
    return module["train"]


def executor_input(spec: dict[str, Any], **changed: Any) -> dict[str, Any]:
    """What KFP's driver hands to the step: the pipeline's defaults, the run's values, and where the artifacts are."""
    defaults = spec["root"]["inputDefinitions"]["parameters"]
    task = spec["root"]["dag"]["tasks"]["train"]["inputs"]["parameters"]
    values = {}
    for name, source in task.items():
        pipeline_name = source.get("componentInputParameter")
        values[name] = defaults[pipeline_name]["defaultValue"] if pipeline_name in defaults else "run-1"
    artifact = {"type": {"schemaTitle": "system.Dataset"}, "metadata": {}}
    return {
        "inputs": {
            "parameterValues": {**values, **changed},
            "artifacts": {"tfrecord": {"artifacts": [{**artifact, "name": "tfrecord", "uri": f"{ROOT}/tfrecord"}]}},
        },
        "outputs": {
            "artifacts": {
                "model": {
                    "artifacts": [
                        {
                            "type": {"schemaTitle": "system.Model"},
                            "name": "model",
                            "uri": f"{ROOT}/model",
                            "metadata": {},
                        }
                    ]
                }
            },
            "outputFile": "/nowhere",
        },
    }


@pytest.mark.slow
def test_the_train_step_trains_in_an_mpijob_on_object_storage(
    place: Callable[..., Place], gcs_bucket: Any, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = place(None)  # the launcher runs what its container says
    dataset = write_dataset(tmp_path / "gcs" / ROOT.removeprefix("gs://") / "tfrecord", train=1210)
    publish_remote(dataset, f"{ROOT}/tfrecord")
    # KFP's launcher has put the input where the step's code looks for it.
    monkeypatch.setattr(artifact_types, "_GCS_LOCAL_MOUNT_PREFIX", f"{tmp_path}/gcs/")
    monkeypatch.setenv("POD_NAME", "train-pod")
    monkeypatch.setenv("POD_UID", "pod-uid")
    monkeypatch.setenv("POD_NAMESPACE", NAMESPACE)
    workflow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run-1", "uid": "workflow-uid"}
    here.api.put_pod({"kind": "Pod", "metadata": {"name": "train-pod", "ownerReferences": [workflow]}})
    spec = next(yaml.safe_load_all(compiled("training", load_settings())))
    given = executor_input(
        spec, workers=2, gpus_per_worker=0, model_type="din", global_batch_size=20, long_seq_length=LONG,
        embedding_dim=4, epochs=2, seed=7, experiment="cluster",
    )  # fmt: skip
    given["outputs"]["outputFile"] = str(tmp_path / "output.json")
    assert given["inputs"]["parameterValues"]["launcher"] == "mpijob"

    executor.Executor(executor_input=given, function_to_execute=train_function(spec)).execute()

    (job,) = here.api.jobs.values()
    assert job["metadata"]["ownerReferences"] == [workflow]
    assert {c["type"] for c in job["status"]["conditions"] if c["status"] == "True"} == {
        "Created",
        "Succeeded",
    }
    command = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["command"]
    assert f"--results_dir={ROOT}/model" in command and command[5:8] == ["mpirun", "-np", "2"]
    # The model is whole where KFP expects the output, and nothing of it lies where KFP's launcher would upload it.
    model = fetch_artifact(f"{ROOT}/model", tmp_path / "model")
    assert model.inputs == {"tfrecord": open_remote(f"{ROOT}/tfrecord").digest}
    assert not (tmp_path / "gcs" / ROOT.removeprefix("gs://") / "model").exists()
    training = json.loads((tmp_path / "model" / "training.json").read_text())
    assert training["workers"] == 2 and training["test_auc"] > 0.8
    assert set(load_model(tmp_path / "model").inputs) == {"uid", "item_trgt", "cat_trgt", "item_pos", "cat_pos"}
    client = MlflowClient(store)
    experiment = client.get_experiment_by_name("cluster")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.data.metrics["test_auc"] == pytest.approx(training["test_auc"])
    assert run.data.tags["kfrec.pipeline_run"] == "run-1"
    # The output's address goes back to KFP.
    told = json.loads((tmp_path / "output.json").read_text())
    assert told["artifacts"]["model"]["artifacts"][0]["uri"] == f"{ROOT}/model"
    assert told["parameterValues"]["trained_model"] == f"{ROOT}/model"
    assert told["parameterValues"]["metrics"]["test_auc"] == pytest.approx(training["test_auc"])
