"""A training in a queue of Kueue: it waits for quota, is admitted, loses its place to a job of priority and resumes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.images import VERSION
from tests.cluster import kubectl as k8s
from tests.cluster.apply import KUEUE_FOLDER
from tests.cluster.steps import Place, Run
from tests.cluster.suite.conftest import (
    MANIFESTS,
    Training,
    assert_nothing_runs,
    assert_same_model,
    node_folder,
    patched_settings,
)
from tests.waiting import LONGEST

Json = dict[str, Any]
QUEUE = "kfrec"
_LABEL = "kueue.x-k8s.io/queue-name"
_COMPONENT = MANIFESTS / "components" / "kueue"
_URGENT = "kfrec-test-urgent"


@pytest.fixture
def kueue(alone: None) -> Iterator[None]:
    """Kueue's own manifests on a node of ours, since its webhooks see every pod; any other cluster has its own."""
    if "KFREC_CLUSTER_NODE" not in os.environ:
        if k8s.found("default", "crd", "clusterqueues.kueue.x-k8s.io") is None:
            pytest.skip("the cluster has no Kueue")
        yield
        return
    folder = str(node_folder() / KUEUE_FOLDER)
    k8s.kubectl("apply", "--server-side", "-k", folder)
    manager = ["-n", "kueue-system", "rollout", "status", "deployment/kueue-controller-manager"]
    k8s.kubectl(*manager, f"--timeout={LONGEST:.0f}s")
    yield
    # With its namespace most of it is gone before its turn comes.
    k8s.kubectl("delete", "-k", folder, "--ignore-not-found")


@pytest.fixture
def queue(kueue: None, place: Place) -> Iterator[None]:
    """The component's queue without quota, into which every MPIJob goes; an urgent job comes before a training."""
    for name in ("quota.yaml", "queue.yaml"):
        _applied(place.namespace, _COMPONENT / name)
    quota(0)
    k8s.kubectl("patch", "clusterqueue", QUEUE, "--type=merge", "-p",
                '{"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}')  # fmt: skip
    metadata = {"name": _URGENT}
    k8s.apply([{"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": metadata,
                "value": 1000}])  # fmt: skip
    with patched_settings(place, "mpijob.kueue.yaml", (_COMPONENT / "mpijob.kueue.yaml").read_text()):
        yield
    # A queue with jobs is not deleted, and their finalizers need Kueue.
    k8s.kubectl("-n", place.namespace, "delete", "mpijobs,jobs", "-l", f"{_LABEL}={QUEUE}")
    k8s.wait_for(lambda: k8s.listed(place.namespace, "workloads.kueue.x-k8s.io") == [])
    k8s.kubectl("delete", "workloadpriorityclass", _URGENT)
    k8s.kubectl("-n", place.namespace, "delete", "-f", str(_COMPONENT / "queue.yaml"))
    k8s.kubectl("delete", "-f", str(_COMPONENT / "quota.yaml"))


def _applied(namespace: str, file: Path) -> None:
    """Applies a file as soon as Kueue's webhooks answer."""
    k8s.wait_for(lambda: k8s.tried("-n", namespace, "apply", "-f", str(file)).returncode == 0)


def quota(cores: int) -> None:
    path = "/spec/resourceGroups/0/flavors/0/resources/0/nominalQuota"
    k8s.kubectl("patch", "clusterqueue", QUEUE, "--type=json", "-p",
                f'[{{"op": "replace", "path": "{path}", "value": "{cores}"}}]')  # fmt: skip


def urgent_job(place: Place) -> Json:
    """A job that takes the whole quota."""
    restricted = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True,
                  "runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}  # fmt: skip
    container = {"name": "urgent", "image": f"{place.registry}/kfrec-cpu:{VERSION}", "command": ["sleep", "3600"],
                 "securityContext": restricted,
                 "resources": {"requests": {"cpu": "1"}}}  # fmt: skip
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}}
    labels = {_LABEL: QUEUE, "kueue.x-k8s.io/priority-class": _URGENT}
    metadata = {"name": _URGENT, "namespace": place.namespace, "labels": labels}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def test_a_training_waits_for_quota_and_resumes_after_it_is_preempted(place: Place, trained: Run, queue: None) -> None:
    namespace = place.namespace
    # One restart or failure would end it.
    training = Training(trained, restarts=0)
    training.await_line(f"is suspended, waiting in queue {QUEUE}")
    (job,) = training.jobs()
    assert training.pods() == []
    launcher = k8s.found(namespace, "job", f"{job}-launcher")
    assert launcher is None or "startTime" not in launcher["status"], "its deadline has begun"
    quota(1)
    training.await_checkpoint()
    k8s.apply([urgent_job(place)])
    k8s.wait_for(lambda: k8s.found(namespace, "job", _URGENT)["status"].get("active"))  # type: ignore[index]
    k8s.wait_for(lambda: training.pods() == [])
    assert training.jobs() == [job]
    k8s.kubectl("-n", namespace, "delete", "job", _URGENT)
    assert "resuming from the checkpoint" in training.finish()
    assert training.jobs() == [job]
    assert_same_model(training, trained)
    assert_nothing_runs(training)
