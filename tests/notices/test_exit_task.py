"""The exit task of compiled pipelines: who gets one, and what it tells of a run in KFP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kfp import dsl
from mlflow import MlflowClient

from components.notices.notice import VARIABLES, WEBHOOK
from components.tracking.run import PIPELINE_RUN
from pipelines.compilation import compiled
from pipelines.defaults import PIPELINES, Pipeline
from pipelines.exit_task import notify
from pipelines.task_settings import load_settings
from tests.fakes.handler import QuietHandler, serving
from tests.fakes.kubernetes_api import KubernetesApi, write_kubeconfig

WORKFLOW = "kfrec-din-training-x7k2p"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The notices that a webhook gets."""
    taken: list[dict[str, Any]] = []

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.body()))
            self.reply(200, b"")

    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with serving(Handler) as url:
        monkeypatch.setenv(WEBHOOK, url)
        yield taken


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    held = KubernetesApi()
    with held.served() as url:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", url)))
        yield held


def add_pod(api: KubernetesApi, number: int, node: str, phase: str, *lines: str) -> None:
    """A pod of the Workflow, as Argo 4.0.5 makes it of KFP 2.17's templates."""
    name = f"{WORKFLOW}-system-container-impl-{number}"
    labels = {"workflows.argoproj.io/workflow": WORKFLOW}
    annotations = {"workflows.argoproj.io/node-name": f"{WORKFLOW}(0).root(0).exit-handler-1(0).{node}"}
    created = f"2026-11-28T00:00:{number:02d}Z"
    metadata = {"name": name, "labels": labels, "annotations": annotations, "creationTimestamp": created}
    api.put_pod({"metadata": metadata, "status": {"phase": phase}})
    for line in lines:
        api.say(name, line)


def end(state: str) -> None:
    status = dsl.PipelineTaskFinalStatus(state, WORKFLOW, "exit-handler-1", None, None)
    notify.python_func(status=status, pipeline="kfrec-din-training", run_id="0d9f-exit")


def test_a_failed_run_is_told_with_its_step_and_its_log(
    told: list[dict[str, Any]], api: KubernetesApi, store: str
) -> None:
    add_pod(api, 1, "preprocess(0).executor(0)", "Succeeded", "rows")
    add_pod(api, 2, "train(0).executor(0)", "Failed", "first attempt")
    add_pod(api, 3, "train-2(1).executor(0)", "Failed", *(f"line {number}" for number in range(30)))
    end("FAILED")
    (notice,) = told
    assert notice["title"] == f"kfrec: kfrec-din-training, run {WORKFLOW} failed in the step train"
    assert notice["log"] == [f"line {number}" for number in range(10, 30)]


@pytest.mark.parametrize(
    ("state", "outcome"), [("COMPLETE", "finished"), ("SUCCEEDED", "finished"), ("CANCELED", "stopped")]
)
def test_other_ends_have_their_decision_and_metrics(
    state: str, outcome: str, told: list[dict[str, Any]], api: KubernetesApi, store: str
) -> None:
    client = MlflowClient(store, store)
    experiment = client.create_experiment(f"exit task {state}")
    tags = {PIPELINE_RUN: "0d9f-exit", "kfrec.registered_model": "exit-ctr", "kfrec.version": "4",
            "kfrec.alias": "challenger", "kfrec.reason": "It may be chance."}  # fmt: skip
    run = client.create_run(experiment, tags=tags).info.run_id
    client.log_metric(run, "test_auc", 0.75)
    client.log_metric(run, "train_auc", 0.8)
    end(state)
    (notice,) = told
    assert (notice["outcome"], notice["step"], notice["metrics"]) == (outcome, "", {"test_auc": 0.75})
    assert notice["registered"] == {
        "model": "exit-ctr", "version": "4", "alias": "challenger", "reason": "It may be chance.",
    }  # fmt: skip


def test_a_run_is_told_when_neither_kubernetes_nor_mlflow_answers(
    told: list[dict[str, Any]], api: KubernetesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api.forbidden.add("pods")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    end("FAILED")
    (notice,) = told
    assert (notice["outcome"], notice["step"], notice["message"]) == ("failed", "", "the failed step is not known")


@pytest.mark.parametrize("kind", PIPELINES)
def test_settings_with_an_exit_task_give_one_to_every_pipeline(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("exit_task:\n  secrets: {kfrec-notices: /etc/kfrec/notices}\n  cache: true\n")
    spec, platform = yaml.safe_load_all(compiled(Pipeline(kind, "din"), load_settings(file, "registry.example.org")))
    tasks = spec["root"]["dag"]["tasks"]
    (handler,) = set(tasks) - {"notify"}
    assert tasks["notify"]["triggerPolicy"] == {"strategy": "ALL_UPSTREAM_TASKS_COMPLETED"}
    assert tasks["notify"]["inputs"]["parameters"]["status"] == {"taskFinalStatus": {"producerTask": handler}}
    assert not tasks["notify"].get("cachingOptions")
    own = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]["exec-notify"]
    assert [secret["secretName"] for secret in own["secretAsVolume"]] == ["kfrec-notices"]


def test_without_such_settings_there_is_none(compiled_ir: Any) -> None:
    assert "exec-notify" not in compiled_ir(Pipeline("training", "din"))
