"""The Katib Experiment of a sweep, and what Katib's webhook makes of its trials' pods."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path, PurePosixPath
from typing import Any

import kubernetes_validate
import pytest
import yaml

from components.train.worker import _parser
from components.training_log import TrainingLog
from pipelines.cli import main
from tests.manifests.pods import violations
from tests.pipelines.sweep.test_plan import PLAN

Json = dict[str, Any]
SETTINGS = """
image: registry.team.org/kfrec-train:0.1.0
service_account: team-worker
image_pull_secrets: [pull]
node_selector: {pool: gpus}
tolerations: [{key: spot, operator: Exists}]
secret_environment: {kfrec-object-store: [AWS_ACCESS_KEY_ID]}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.yaml"
    path.write_text(PLAN)
    return path


@pytest.fixture
def made(file: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Json]:
    """The Experiment of a plan with other settings for Katib, beside the data."""

    def make(katib: str = "", registry: str = "registry.example.org/team", **parameters: str) -> Json:
        plan = yaml.safe_load(PLAN)
        plan["katib"] |= yaml.safe_load(f"{{{katib}}}")
        plan["parameters"] |= parameters
        file.write_text(yaml.safe_dump(plan, sort_keys=False))
        assert main(["sweep", str(file), "--katib", "--registry", registry]) == 0
        return yaml.safe_load(capsys.readouterr().out)

    return make


def trial(experiment: Json, value: str = "7") -> Json:
    """The pod of a trial, with the same value for every parameter that is searched."""
    template = experiment["spec"]["trialTemplate"]
    text = json.dumps(template["trialSpec"]["spec"]["template"])
    for each in template["trialParameters"]:
        placeholder = f"${{trialParameters.{each['name']}}}"
        assert placeholder in text
        text = text.replace(placeholder, value)
    assert "${" not in text
    return json.loads(text)


def mutated(experiment: Json, pod: Json) -> Json:
    """The pod as Katib 0.19 admits it: pkg/webhook/v1beta1/pod in its sources, for a collector of the kind File.

    The collector is a second container, a volume with the folder of the file is mounted in both, all containers see
    each other's processes, and a shell runs the command and notes how it ended in that folder.
    """
    spec, (container,) = deepcopy(pod["spec"]), deepcopy(pod["spec"]["containers"])
    folder = str(PurePosixPath(experiment["spec"]["metricsCollectorSpec"]["source"]["fileSystemPath"]["path"]).parent)
    words = [*container["command"], *container.get("args", ())]
    shell = words[:2] if words[:2] in (["sh", "-c"], ["bash", "-c"]) else ["sh", "-c"]
    words = words[2:] if shell == words[:2] else words
    note = f"{folder}/$$$$.pid"
    if "earlyStopping" in experiment["spec"]:
        test = f"test -f {note} && [ $(head -n 1 {folder}/$$.pid) = early-stopped ]"
        words += ["||", f"if {test}; then echo stopped; else echo failed; exit 1; fi"]
    words += ["&&", f"echo completed > {note}"]
    # With injectSecurityContext in Katib's configuration; without it the collector has none.
    collector = {"name": "metrics-logger-and-collector", "image": "katib/file-metrics-collector:0.19.0",
                 "securityContext": container["securityContext"]}  # fmt: skip
    container |= {"command": shell, "args": [" ".join(words)]}
    mount = {"name": "metrics-volume", "mountPath": folder}
    for each in (container, collector):
        each["volumeMounts"] = [*each.get("volumeMounts", ()), mount]
    spec["volumes"] = [*spec.get("volumes", ()), {"name": "metrics-volume", "emptyDir": {}}]
    return {**pod, "spec": {**spec, "containers": [container, collector], "shareProcessNamespace": True}}


def test_the_experiment_searches_the_same(made: Callable[..., Json]) -> None:
    experiment = made()
    spec = experiment["spec"]
    assert (experiment["apiVersion"], experiment["kind"]) == ("kubeflow.org/v1beta1", "Experiment")
    assert spec["objective"]["type"] == "maximize" and spec["objective"]["objectiveMetricName"] == "validation_auc"
    assert (spec["maxTrialCount"], spec["parallelTrialCount"]) == (12, 3)
    assert spec["parameters"] == [
        {"name": "lr", "parameterType": "double",
         "feasibleSpace": {"min": "0.0001", "max": "0.01", "distribution": "logUniform"}},
        {"name": "embedding_dim", "parameterType": "int", "feasibleSpace": {"min": "4", "max": "16"}},
        {"name": "global_batch_size", "parameterType": "categorical", "feasibleSpace": {"list": ["256", "1024"]}},
    ]  # fmt: skip


@pytest.mark.parametrize("as_written", [True, False], ids=["as written", "as admitted"])
def test_a_trial_runs_the_worker_with_every_parameter(
    made: Callable[..., Json], tmp_path: Path, as_written: bool
) -> None:
    """A shell runs it: the values reach the worker whole, and Katib reads from its note that it has ended."""
    experiment = made(placed_tables="item=rows,cat=auto@host")
    pod = trial(experiment) if as_written else mutated(experiment, trial(experiment))
    container = pod["spec"]["containers"][0]
    assert container["name"] == experiment["spec"]["trialTemplate"]["primaryContainerName"]
    (tmp_path / "python").write_text('#!/bin/sh\nfor word; do echo "$word"; done\n')
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "results").mkdir()
    # Kubernetes makes one dollar of two; the folder is that of the test.
    words = [word.replace("$$", "$") for word in (*container["command"], *container.get("args", ()))]
    words[2] = words[2].replace("/results/$", f"{tmp_path}/results/$")
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    told = subprocess.run(words, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert told[:2] == ["-m", "components.train.worker"]
    parsed = vars(_parser({"model_type": "din", "task": ""}).parse_args(told[2:]))
    assert (parsed["epochs"], parsed["lr"], parsed["dataset_dir"]) == ("2", "7", "gs://bucket/tfrecord")
    assert parsed["placed_tables"] == "item=rows,cat=auto@host" and parsed["results_dir"] == "/results"
    notes = [path.read_text() for path in (tmp_path / "results").glob("*.pid")]
    assert notes == ([] if as_written else ["completed\n"])


def test_a_trial_is_admitted_by_katib_and_in_a_restricted_namespace(made: Callable[..., Json]) -> None:
    experiment = made()
    assert experiment["spec"]["metricsCollectorSpec"]["collector"] == {"kind": "File"}
    pod = mutated(experiment, trial(experiment))
    kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "trial"}, **pod},
                                 "1.34.0", strict=True)  # fmt: skip
    assert violations(pod["spec"]) == []
    for container in pod["spec"]["containers"]:
        paths = [mount["mountPath"] for mount in container["volumeMounts"]]
        assert len(set(paths)) == len(paths) and "/results" in paths
    names = [volume["name"] for volume in pod["spec"]["volumes"]]
    assert len(set(names)) == len(names)


def test_a_trials_pod_is_that_of_a_worker_of_the_cluster(made: Callable[..., Json], tmp_path: Path) -> None:
    (tmp_path / "mpijob.yaml").write_text(SETTINGS)
    experiment = made(f"job_settings: {tmp_path / 'mpijob.yaml'}, gpus: 1", pod_memory="3Gi", pod_cpu="500m")
    spec = trial(experiment)["spec"]
    (container,) = spec["containers"]
    assert spec["serviceAccountName"] == "team-worker" and spec["imagePullSecrets"] == [{"name": "pull"}]
    assert spec["nodeSelector"] == {"pool": "gpus"} and spec["automountServiceAccountToken"] is False
    assert {toleration["key"] for toleration in spec["tolerations"]} == {"spot", "nvidia.com/gpu"}
    assert container["image"] == "registry.team.org/kfrec-train:0.1.0"
    assert container["resources"]["limits"] == {"memory": "3Gi", "nvidia.com/gpu": "1"}
    assert container["resources"]["requests"]["cpu"] == "500m"
    references = [entry["valueFrom"]["secretKeyRef"] for entry in container["env"] if "valueFrom" in entry]
    assert references == [{"name": "kfrec-object-store", "key": "AWS_ACCESS_KEY_ID", "optional": True}]
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/dev/shm", "/stage", "/tmp"}


def test_the_collector_finds_the_metric_in_a_line_of_the_log(made: Callable[..., Json], tmp_path: Path) -> None:
    source = made()["spec"]["metricsCollectorSpec"]["source"]
    with TrainingLog(tmp_path / "log.json") as log:
        log.write([1], {"train_loss": 0.5, "validation_auc": 0.7512})
    (form,) = source["filter"]["metricsFormat"]
    assert ("validation_auc", "0.7512") in re.findall(form, (tmp_path / "log.json").read_text())


@pytest.mark.parametrize(
    ("katib", "told"),
    [
        ('data: ""', "katib has no data"),
        ("job_settings: none.yaml", "katib: job_settings: none.yaml: no such file; correct the path"),
        ("gpus: 2", "gpus"),
        ("gpus: 0", "katib: the image of the trials has no registry; set KFREC_REGISTRY, give --registry PREFIX"),
    ],
)
def test_a_mistake_is_one_line(file: Path, katib: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    plan = yaml.safe_load(PLAN)
    plan["katib"] |= yaml.safe_load(f"{{{katib}}}")
    file.write_text(yaml.safe_dump(plan, sort_keys=False))
    assert main(["sweep", str(file), "--katib", "--registry", ""]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error")]
    assert told in line
