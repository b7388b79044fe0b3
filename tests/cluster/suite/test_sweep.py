"""A trial of a sweep, as Katib would start it: with its collector's container and the volume for the results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from components.artifacts.reference import data_uri
from pipelines.cli import main
from tests.cluster import kubectl as k8s
from tests.cluster.steps import Place, Run
from tests.cluster.suite.conftest import VALUES
from tests.pipelines.sweep.test_katib import mutated, trial
from tests.waiting import LONGEST

_NAME = "kfrec-test-sweep"
_OF_THE_TRAIN_STEP = ("embedding_dim", "global_batch_size", "train_seed", "pod_memory", "pod_cpu", "shared_memory")
# Katib's collector ends when the training has noted how it ended.
_COLLECTED = "until ls /results/*.pid >/dev/null 2>&1; do sleep 1; done; cat /results/log.json"


def test_a_trial_trains_in_a_pod_of_its_own_and_its_metric_is_found(
    place: Place, prepared: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = {
        "model": "din",
        "parameters": {name: VALUES[name] for name in _OF_THE_TRAIN_STEP} | {"epochs": 1},
        "search": {"lr": {"low": 0.001, "high": 0.01}},
        "trials": 1,
        "katib": {
            "data": data_uri(prepared.uri("tfrecord", "tfrecord")), "name": _NAME, "namespace": place.namespace,
            "gpus": 0, "job_settings": str(place.overlay / "mpijob.yaml"),
        },
    }  # fmt: skip
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(plan))
    assert main(["sweep", str(file), "--katib"]) == 0
    experiment = yaml.safe_load(capsys.readouterr().out)
    pod = mutated(experiment, trial(experiment, "0.005"))
    training, collector = pod["spec"]["containers"]
    collector |= {"image": training["image"], "command": ["sh", "-c", _COLLECTED]}
    job = experiment["spec"]["trialTemplate"]["trialSpec"]
    job["metadata"] = {"name": _NAME, "namespace": place.namespace}
    # The collector here waits for ever after a training that failed.
    job["spec"] |= {"template": pod, "activeDeadlineSeconds": int(LONGEST)}
    k8s.apply([job])

    def ended() -> bool:
        body = k8s.found(place.namespace, "job", _NAME)
        assert body is not None
        return any(entry["type"] in ("Complete", "Failed") for entry in body["status"].get("conditions", ()))

    k8s.wait_for(ended)
    told = k8s.kubectl("-n", place.namespace, "logs", f"job/{_NAME}", "--all-containers")
    logged = k8s.kubectl("-n", place.namespace, "logs", f"job/{_NAME}", "-c", collector["name"])
    k8s.kubectl("-n", place.namespace, "delete", "job", _NAME)
    (form,) = experiment["spec"]["metricsCollectorSpec"]["source"]["filter"]["metricsFormat"]
    found = dict(re.findall(form, logged))
    assert 0 < float(found[experiment["spec"]["objective"]["objectiveMetricName"]]) < 1, told
