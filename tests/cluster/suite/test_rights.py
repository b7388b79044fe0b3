"""What each account may do, asked of the API server itself: account, verb, resource."""

from __future__ import annotations

from pathlib import Path

import pytest

from components.cluster.api import RIGHTS
from tests.cluster import kubectl as k8s
from tests.cluster.suite.conftest import MANIFESTS, in_namespace

ACCOUNTS = ("kfrec-pipeline", "kfrec-worker", "kfrec-mlflow", "kfrec-schedule")
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    "mpijobs.kubeflow.org", "mpijobs.kubeflow.org/status", "pods", "pods/log", "pods/exec", "events", "secrets",
    "configmaps", "serviceaccounts", "persistentvolumeclaims", "jobs.batch", "cronjobs.batch", "deployments.apps",
    "workflows.argoproj.io", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
    "serviceaccounts/token",
)  # fmt: skip
STEPS = {
    ("mpijobs.kubeflow.org", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")
} | {
    ("pods", "get"), ("pods", "list"), ("pods/log", "get"), ("events", "list"), ("workflows.argoproj.io", "get"),
}  # fmt: skip


@pytest.fixture
def installed(namespace: str, tmp_path: Path) -> str:
    """The base and the schedules, without the rights of KFP's own account."""
    components = (MANIFESTS / "components" / "schedules",)
    k8s.kubectl("apply", "-k", str(in_namespace(tmp_path / "k", namespace, MANIFESTS / "base", components=components)))
    return namespace


def may(account: str, namespace: str, where: str) -> set[tuple[str, str]]:
    return {
        (resource, verb)
        for resource in RESOURCES
        for verb in VERBS
        if k8s.allowed(f"{namespace}:{account}", verb, resource, where)
    }


def test_a_step_may_run_its_training_and_nothing_else(installed: str) -> None:
    assert may("kfrec-pipeline", installed, installed) == STEPS
    asked = {(_resource(right.group, right.resource), verb) for right in RIGHTS for verb in right.verbs}
    assert asked == STEPS, "kfrec doctor asks for other rights than a step has"


def test_a_step_may_do_nothing_in_another_namespace(installed: str) -> None:
    assert may("kfrec-pipeline", installed, "default") == set()


@pytest.mark.parametrize("account", sorted(set(ACCOUNTS) - {"kfrec-pipeline"}))
def test_servers_workers_and_schedules_may_do_nothing(account: str, installed: str) -> None:
    assert may(account, installed, installed) == set()


def _resource(group: str, resource: str) -> str:
    plain, slash, subresource = resource.partition("/")
    return f"{plain}{'.' * bool(group)}{group}{slash}{subresource}"
