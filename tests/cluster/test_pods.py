from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.cluster.api import connect
from components.cluster.pods import Owner, Pod, find_owner
from components.train.mpijob.job import KIND
from tests.fakes.kubernetes_api import NAMESPACE, KubernetesApi, write_kubeconfig

WORKFLOW = Owner("run-x", "workflow-uid")
POD = Owner("step", "pod-uid", kind="Pod", api_version="v1")
REFERENCE = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run-x", "uid": "workflow-uid"}
LABEL = {"workflows.argoproj.io/workflow": "run-x"}


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesApi]:
    api = KubernetesApi()
    with api.served() as url:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path / "kubeconfig", url)))
        yield api


def found(namespace: str = NAMESPACE) -> Owner | None:
    return find_owner(connect(KIND), Pod(namespace, "step", "pod-uid"))


def put_pod(api: KubernetesApi, **metadata: object) -> None:
    api.put_pod({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "step", "uid": "pod-uid", **metadata}})


def test_the_workflow_that_owns_the_pod_is_the_owner(api: KubernetesApi) -> None:
    put_pod(api, ownerReferences=[REFERENCE])
    assert found() == WORKFLOW
    assert WORKFLOW.reference() == REFERENCE


def test_the_workflow_of_the_pods_label_is_the_owner(api: KubernetesApi) -> None:
    put_pod(api, labels=LABEL)
    api.workflows["run-x"] = {"metadata": {"name": "run-x", "uid": "workflow-uid"}}
    assert found() == WORKFLOW


@pytest.mark.parametrize("forbidden", [set(), {"workflows"}, {"pods"}])
def test_a_pod_whose_workflow_cannot_be_found_is_the_owner_itself(api: KubernetesApi, forbidden: set[str]) -> None:
    put_pod(api, labels=LABEL)
    api.forbidden = forbidden
    assert found() == POD


def test_nothing_in_another_namespace_is_an_owner(api: KubernetesApi) -> None:
    put_pod(api, ownerReferences=[REFERENCE])
    assert found(namespace="another") is None
