"""The pods that stand for KFP's, without a cluster: that they are valid, and what the launcher in them does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from pipelines.defaults import RETRAINING, TRAINING, Pipeline
from tests.cluster import kubectl as k8s
from tests.cluster import launch
from tests.cluster.steps import Place, Run
from tests.waiting import UNTIL_ENDED, wait_for

Json = dict[str, Any]
SETTINGS = Path(__file__).parent / "suite" / "settings.yaml"


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where objects of runs go nowhere."""
    monkeypatch.setattr(k8s, "apply", lambda objects: "")
    monkeypatch.setattr(k8s, "found", lambda *names: {"metadata": {"uid": "uid-of-workflow"}})
    return Place("kubeflow", "kfrec-pipeline", "http://store:9000", "registry.example.org", SETTINGS, SETTINGS.parent)


@pytest.fixture
def run(place: Place) -> Run:
    return Run(place, Pipeline(TRAINING, "din"), {"workers": 2})


@pytest.mark.slow
def test_every_step_is_a_valid_pod_of_its_workflow_with_what_is_compiled(run: Run) -> None:
    for task in ("download", "preprocess", "tfrecord", "train", "evaluate", "register"):
        pod = run.pod(task)
        kubernetes_validate.validate(pod, "1.34.0", strict=True)
        assert run.owns(pod) and pod["spec"]["serviceAccountName"] == "kfrec-pipeline"
        (main,) = pod["spec"]["containers"]
        environment = {entry["name"]: entry for entry in main["env"]}
        given = json.loads(environment["KFREC_TEST_EXECUTOR_INPUT"]["value"])
        assert given == run.executor_input(task) and "{{" not in json.dumps(given)
        assert {"/tmp", "/s3", "/etc/kfrec/config"} <= {mount["mountPath"] for mount in main["volumeMounts"]}
        assert ("POD_NAME" in environment) == (task == "train")


@pytest.mark.slow
def test_a_run_on_the_inputs_of_another_writes_outputs_of_its_own(run: Run) -> None:
    run.start("train")
    other = Run(run.place, Pipeline(TRAINING, "din"), {}, run)
    assert other.uri("train", "model") == run.uri("train", "model")
    other.start("train")
    assert other.id in other.uri("train", "model") and run.id in other.uri("tfrecord", "tfrecord")


@pytest.mark.slow
def test_a_step_of_a_nested_pipeline_gets_the_runs_parameters_and_the_results_of_steps(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(place, Pipeline(RETRAINING, "din"), {"data_prefix": "s3://b/logs", "epochs": 9})
    found: Json = {"workflow": "s3://b/model", "source": "s3://b/logs/2", "warm_start_path": "", "data_version": "2"}
    found |= {"proceed": True, "occasion": "new", "reference_profile": ""}
    monkeypatch.setattr(run, "finish", lambda pod: "")
    monkeypatch.setattr(run, "results_of", lambda pod: found)
    run.step("find")
    assert run.results("find")["proceed"] is True
    assert run.executor_input("download")["inputs"]["parameterValues"]["source"] == "s3://b/logs/2"
    assert run.executor_input("preprocess")["inputs"]["parameterValues"]["workflow"] == "s3://b/model"
    assert run.executor_input("train")["inputs"]["parameterValues"]["epochs"] == 9


def started(tmp_path: Path, *command: str) -> subprocess.Popen[str]:
    """The launcher, around a command without artifacts."""
    given: Json = {
        "inputs": {"artifacts": {}},
        "outputs": {"artifacts": {}, "parameters": {}, "outputFile": str(tmp_path / "output.json")},
    }
    environment = os.environ | {"KFREC_TEST_EXECUTOR_INPUT": json.dumps(given)}
    environment |= {f"{launch.STORE}{name}": "http://127.0.0.1:9" for name in ("URL", "KEY", "SECRET")}
    words = [sys.executable, launch.__file__, *command]
    return subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True)


def test_the_step_gets_its_input_and_none_of_the_stores_keys(tmp_path: Path) -> None:
    program = "import os, sys; print(sys.argv[1], [name for name in os.environ if 'KFREC_TEST' in name])"
    done = started(tmp_path, sys.executable, "-c", program, "{{$}}")
    told, _ = done.communicate()
    assert done.returncode == 0 and told.startswith('{"inputs"') and told.rstrip().endswith(" []")


def test_a_step_that_fails_ends_the_container_with_1_whatever_its_status(tmp_path: Path) -> None:
    done = started(tmp_path, sys.executable, "-c", "raise SystemExit(2)")
    assert done.wait() == 1


def test_a_signal_ends_the_launcher_and_reaches_the_step(tmp_path: Path) -> None:
    program = (
        "import os, signal, time; from pathlib import Path\n"
        "signal.signal(signal.SIGTERM, lambda *_: (Path('told').touch(), os._exit(0)))\n"
        f"Path('up').touch(); time.sleep({UNTIL_ENDED})"
    )
    done = started(tmp_path, sys.executable, "-c", program)
    wait_for((tmp_path / "up").exists)
    done.send_signal(signal.SIGTERM)
    assert done.wait() != 0
    wait_for((tmp_path / "told").exists)
