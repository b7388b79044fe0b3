"""What becomes of a training when a part of it, or of the cluster, fails."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from tests.cluster import kubectl as k8s
from tests.cluster.servers import NODE
from tests.cluster.steps import Place, Run
from tests.cluster.suite.conftest import (
    SIGNAL,
    Training,
    assert_nothing_runs,
    assert_same_model,
    in_pod,
    node_folder,
    patched_settings,
    shown,
)

Json = dict[str, Any]
_WORKER = "components.train.worker"
_AWAY_SECONDS = 30


def test_workers_that_are_killed_and_deleted_by_force_are_replaced(
    place: Place, trained: Run, tracked: MlflowClient
) -> None:
    training = Training(trained)
    first = training.await_checkpoint()
    in_pod(place.namespace, f"{first}-worker-1", SIGNAL.format(word=_WORKER, signal=9))
    training.await_line("restart 1 of 2 resumes from the newest checkpoint")
    k8s.wait_for(lambda: shown(tracked, training.run)[0]["loss"])
    assert "time_to_train" not in shown(tracked, training.run)[1]
    second = f"{training.await_job_after(first)}-worker-1"
    # The operator replaces a worker that has not begun, and the launcher waits for it: that is no fault of a training.
    k8s.wait_for(lambda: trains(place.namespace, second))
    k8s.kubectl("-n", place.namespace, "delete", "pod", second, "--force", "--grace-period=0")
    k8s.wait_for(lambda: len(shown(tracked, training.run)[0]["epoch/train_loss"]) >= 2)
    assert "time_to_train" not in shown(tracked, training.run)[1]
    said = training.finish()
    assert second in said and "restart 2 of 2" in said
    assert_same_model(training, trained)
    curves, metrics = shown(tracked, training.run)
    assert sorted(curves["epoch/train_loss"]) == [epoch["epoch"] for epoch in training.result()["epochs"]]
    assert len(set(curves["loss"])) == len(curves["loss"]) and "time_to_train" in metrics
    assert_nothing_runs(training)


def trains(namespace: str, pod: str) -> bool:
    """Whether a rank runs in a worker's pod; signal 0 does nothing to it."""
    program = SIGNAL.format(word=_WORKER, signal=0)
    return bool(k8s.tried("-n", namespace, "exec", pod, "--", "python", "-c", program).stdout)


def test_a_worker_without_enough_memory_ends_the_training_with_a_line(place: Place, prepared: Run) -> None:
    training = Training(prepared, pod_memory="300Mi", shared_memory="64Mi", restarts=0)
    assert training.run.finish(training.pod) is None
    said = training.run.log(training.pod)
    assert "OOMKilled" in said or "raise pod_memory" in said, said
    assert_nothing_runs(training)


def test_a_training_outlives_its_launcher_and_a_step_that_is_ended_and_then_killed(place: Place, trained: Run) -> None:
    training = Training(trained)
    job = training.await_checkpoint()
    (launcher,) = [pod for pod in training.pods() if "-launcher" in pod]
    k8s.kubectl("-n", place.namespace, "delete", "pod", launcher, "--wait=false")
    k8s.wait_for(lambda: launcher not in training.pods())
    name = job.rsplit("-", 1)[0]
    k8s.kubectl("-n", place.namespace, "exec", training.pod, "--", "python", "-c", "import os; os.kill(1, 15)")
    assert training.run.finish(training.pod) is None
    training.pod = training.run.start("train", 1)
    training.await_line(name)
    in_pod(place.namespace, training.pod, SIGNAL.format(word="executor_main", signal=9))
    assert training.run.finish(training.pod) is None
    training.pod = training.run.start("train", 2)
    assert name in training.finish()
    assert_same_model(training, trained)
    assert_nothing_runs(training)


def test_an_image_that_cannot_be_pulled_is_named_and_the_job_goes_with_its_run(place: Place, prepared: Run) -> None:
    with patched_settings(place, "mpijob.other.yaml", f"image: {place.registry}/kfrec-missing:0\n"):
        training = Training(prepared)
        training.await_line("kfrec-missing")
    assert "Err" in training.run.log(training.pod) or "pull" in training.run.log(training.pod).lower()
    terminated(training)


def test_a_worker_that_no_node_takes_is_named_and_the_job_goes_with_its_run(place: Place, prepared: Run) -> None:
    training = Training(prepared, pod_memory="900Ti")
    training.await_line("Insufficient memory")
    terminated(training)


def terminated(training: Training) -> None:
    """Deletes a run, and waits until nothing of it is there."""
    namespace = training.run.place.namespace
    jobs = training.jobs()
    training.run.terminate()
    for job in jobs:
        k8s.await_gone(namespace, "mpijob", job)
    selector = "training.kubeflow.org/job-name"
    k8s.wait_for(
        lambda: (
            not [
                body
                for body in k8s.listed(namespace, "pods", "-l", selector)
                if body["metadata"]["labels"][selector] in jobs
            ]
        )
    )
    k8s.await_gone(namespace, "pod", training.pod)


def test_servers_and_a_node_that_are_away_end_no_training(place: Place, trained: Run, alone: None) -> None:
    folder = node_folder()
    training = Training(trained)
    training.await_checkpoint()
    process = server(folder, "kube-apiserver")
    os.kill(process, signal.SIGKILL)
    k8s.wait_for(lambda: server(folder, "kube-apiserver") != process)
    k8s.wait_for(lambda: k8s.tried("get", "--raw", "/readyz").returncode == 0)
    assert "restart 1 of" not in training.run.log(training.pod)
    deployment = ["-n", place.namespace, "scale", "deployment/kfrec-mlflow"]
    k8s.kubectl(*deployment, "--replicas=0")
    with stopped(folder, "kubelet"):
        with stopped(folder, "seaweedfs"):
            time.sleep(_AWAY_SECONDS)
        k8s.wait_for(lambda: not ready())
    k8s.wait_for(ready)
    k8s.kubectl(*deployment, "--replicas=1")
    training.finish()
    assert_same_model(training, trained)
    k8s.kubectl("-n", place.namespace, "rollout", "status", "deployment/kfrec-mlflow", "--timeout=600s")


def ready() -> bool:
    body = k8s.found("default", "node", NODE)
    assert body is not None
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in body["status"]["conditions"])


def server(folder: Path, name: str) -> int:
    """The process of one of the node's servers."""
    return int((folder / "pids" / name).read_text())


@contextmanager
def stopped(folder: Path, name: str) -> Iterator[None]:
    """A server does not answer while the block runs."""
    process = server(folder, name)
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)
