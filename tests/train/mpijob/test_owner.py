from __future__ import annotations

from collections.abc import Callable

import pytest

from components.train.mpijob.job import Owner
from components.train.mpijob.owner import find_owner
from tests.fakes.kubernetes_api import NAMESPACE
from tests.train.mpijob.conftest import Place

WORKFLOW = Owner("run-x", "workflow-uid")
POD = Owner("step", "pod-uid", kind="Pod", api_version="v1")
REFERENCE = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "name": "run-x", "uid": "workflow-uid"}
LABEL = {"workflows.argoproj.io/workflow": "run-x"}


@pytest.fixture
def here(place: Callable[..., Place]) -> Place:
    return place(None)


def found(here: Place, namespace: str = NAMESPACE) -> Owner | None:
    return find_owner(here.launcher()._cluster, namespace, "step", "pod-uid")


def put_pod(here: Place, **metadata: object) -> None:
    here.api.put_pod({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "step", "uid": "pod-uid", **metadata}})


def test_the_workflow_that_owns_the_pod_is_the_owner(here: Place) -> None:
    put_pod(here, ownerReferences=[REFERENCE])
    assert found(here) == WORKFLOW
    assert WORKFLOW.reference() == REFERENCE


def test_the_workflow_of_the_pods_label_is_the_owner(here: Place) -> None:
    put_pod(here, labels=LABEL)
    here.api.workflows["run-x"] = {"metadata": {"name": "run-x", "uid": "workflow-uid"}}
    assert found(here) == WORKFLOW


@pytest.mark.parametrize("forbidden", [set(), {"workflows"}, {"pods"}])
def test_a_pod_whose_workflow_cannot_be_found_is_the_owner_itself(here: Place, forbidden: set[str]) -> None:
    put_pod(here, labels=LABEL)
    here.api.forbidden = forbidden
    assert found(here) == POD


def test_nothing_in_another_namespace_is_an_owner(here: Place) -> None:
    put_pod(here, ownerReferences=[REFERENCE])
    assert found(here, namespace="another") is None
