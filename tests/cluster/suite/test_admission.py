"""The component ``admission``: what the API server lets the account of a step create."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.steps.catalog import LaunchParameters
from components.train.mpijob.job import mpijob
from components.train.mpijob.settings import JobSettings
from tests.cluster import kubectl as k8s
from tests.cluster.suite.conftest import MANIFESTS, in_namespace

Json = dict[str, Any]
Change = Callable[[Json], object]
IMAGE = "registry.example.org/kfrec-train:0.1.0"
SETTINGS = JobSettings(
    image=IMAGE,
    service_account="kfrec-worker",
    secret_environment={"kfrec-object-store": ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]},
)


def job(namespace: str) -> Json:
    """What the train step creates."""
    parameters = LaunchParameters(workers=2, workers_per_pod=1, gpus_per_worker=0)
    return mpijob("kfrec-train-a", 1, namespace, parameters, SETTINGS, ["--dataset_dir=s3://bucket/data"])


def pod(body: Json, role: str = "Worker") -> Json:
    return body["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]


def container(body: Json, role: str = "Worker") -> Json:
    return pod(body, role)["containers"][0]


def security(**entries: Any) -> Change:
    """Changes the security context of a worker's container."""
    return lambda body: container(body)["securityContext"].update(entries)


def volume(source: Json) -> tuple[Change, str]:
    """Adds a volume to a worker, and what is told of it."""
    added = {"name": "more", **source}
    return lambda body: pod(body).setdefault("volumes", []).append(added), "a volume of the MPIJob is neither"


def created(namespace: str, account: str, body: Json) -> str:
    """What the API server answers to an account that creates the job; empty if it may. Nothing is stored."""
    user = f"--as=system:serviceaccount:{namespace}:{account}"
    done = k8s.tried("create", user, "--dry-run=server", "-f", "-", given=json.dumps(body))
    return "" if done.returncode == 0 else done.stderr


@pytest.fixture
def installed(namespace: str, tmp_path: Path) -> str:
    """The base with the policy, which the API server applies some moments later."""
    components = (MANIFESTS / "components" / "admission",)
    folder = in_namespace(tmp_path / "k", namespace, MANIFESTS / "base", components=components)
    k8s.kubectl("apply", "-k", str(folder))
    other = job(namespace)
    container(other)["image"] = "elsewhere/image"
    k8s.wait_for(lambda: "kfrec-admission" in created(namespace, "kfrec-pipeline", other))
    return namespace


OTHER_IMAGE = "registry.example.org/kfrec-trainer:1"
OTHER_SECRET: Json = {"name": "s", "secret": {"secretName": "kfrec-mlflow"}}
CHANGES: dict[str, tuple[Change, str]] = {
    "another account": (lambda body: pod(body).update(serviceAccountName="kfrec-mlflow"), "another account"),
    "no account": (lambda body: pod(body).pop("serviceAccountName"), "another account"),
    "another image": (lambda body: container(body).update(image=OTHER_IMAGE), "another image"),
    "another image of the launcher": (lambda body: container(body, "Launcher").update(image="sh"), "another image"),
    "another image before": (
        lambda body: pod(body).update(initContainers=[{**container(body), "name": "first", "image": "sh"}]),
        "another image",
    ),
    "another secret": (
        lambda body: container(body).update(envFrom=[{"secretRef": {"name": "kfrec-mlflow-server"}}]),
        "another secret",
    ),
    "a key of another secret": (
        lambda body: container(body).setdefault("env", []).append(
            {"name": "P", "valueFrom": {"secretKeyRef": {"name": "kfrec-mlflow", "key": "a"}}}
        ),
        "another secret",
    ),
    "a volume of another secret": (
        lambda body: pod(body).setdefault("volumes", []).append(OTHER_SECRET),
        "a volume of the MPIJob is neither",
    ),
    "a projected volume": (
        lambda body: pod(body).setdefault("volumes", []).append(
            {"name": "s", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
        ),
        "a volume of the MPIJob is neither",
    ),
    "a folder of the host": volume({"hostPath": {"path": "/"}}),
    "a volume of a driver": volume({"flexVolume": {"driver": "a/b", "secretRef": {"name": "kfrec-mlflow"}}}),
    "a volume of Azure": volume({"azureFile": {"secretName": "kfrec-mlflow", "shareName": "s"}}),
    "the claim of PostgreSQL": volume({"persistentVolumeClaim": {"claimName": "kfrec-postgres"}}),
    "a privileged container": (security(privileged=True, allowPrivilegeEscalation=True), "may become root"),
    "a container of root": (security(runAsUser=0, runAsNonRoot=False), "may become root"),
    "a pod of root": (lambda body: pod(body).pop("securityContext"), "may become root"),
    "a container without a security context": (lambda body: container(body).pop("securityContext"), "may become root"),
    "a capability": (security(capabilities={"drop": ["ALL"], "add": ["SYS_ADMIN"]}), "may become root"),
    "a profile": (security(seccompProfile={"type": "Unconfined"}), "may become root"),
    "the host's network": (lambda body: pod(body).update(hostNetwork=True), "a namespace or a port of the host"),
    "a port of the host": (
        lambda body: container(body).update(ports=[{"containerPort": 80, "hostPort": 80}]),
        "a namespace or a port of the host",
    ),
    "a node": (lambda body: pod(body).update(nodeName="control-plane"), "names its node"),
}  # fmt: skip


def test_a_step_creates_kfrecs_mpijobs_and_no_others(installed: str) -> None:
    assert created(installed, "kfrec-pipeline", job(installed)) == ""
    for name, (change, told) in CHANGES.items():
        body = job(installed)
        change(body)
        answer = created(installed, "kfrec-pipeline", body)
        assert "kfrec-mpijobs" in answer and told in answer, f"{name}: {answer or 'created'}"


def test_others_are_held_to_nothing(installed: str) -> None:
    body = job(installed)
    container(body)["image"] = "elsewhere/image"
    done = k8s.tried("create", "--dry-run=server", "-f", "-", given=json.dumps(body))
    assert done.returncode == 0, done.stderr
