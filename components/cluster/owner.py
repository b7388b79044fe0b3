"""The owner of the objects that a step creates: the Workflow of the pipeline run.

The step's own pod is a worse owner: the loss of its node would delete a healthy job, and failed pods live as long as
their Workflow.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, NamedTuple

from components.cluster.api import Cluster, Refused
from components.errors import KfrecError

_KIND, _LABEL = "Workflow", "workflows.argoproj.io/workflow"


@dataclass(frozen=True)
class Owner:
    """The owner of an object; Kubernetes deletes the object with it."""

    name: str
    uid: str
    kind: str = "Workflow"
    api_version: str = "argoproj.io/v1alpha1"

    def reference(self) -> dict[str, Any]:
        return {"apiVersion": self.api_version, "kind": self.kind, "name": self.name, "uid": self.uid}


class Pod(NamedTuple):
    """A step's pod, from the environment set by pipelines/task_settings.yaml; empty outside a pod."""

    namespace: str
    name: str
    uid: str


def own_pod() -> Pod:
    """The pod of this process."""
    return Pod(*(os.environ.get(f"POD_{field}", "") for field in ("NAMESPACE", "NAME", "UID")))


def find_owner(cluster: Cluster, pod: Pod) -> Owner | None:
    """The Workflow of a step's pod, or the pod itself if the Workflow cannot be found.

    Args:
        cluster: of the owned object.

    Returns:
        The owner; None without a pod, or if it is in another namespace: Kubernetes garbage-collects objects with an
        owner in another namespace.
    """
    if not (pod.name and pod.uid) or pod.namespace not in ("", cluster.namespace):
        return None
    itself = Owner(pod.name, pod.uid, kind="Pod", api_version="v1")
    try:
        mine = cluster.pod(pod.name)
        return (_workflow(cluster, mine["metadata"]) if mine else None) or itself
    except (Refused, KfrecError):
        return itself


def _workflow(cluster: Cluster, pod: dict[str, Any]) -> Owner | None:
    for reference in pod.get("ownerReferences", ()):
        if reference["kind"] == _KIND:
            return Owner(reference["name"], reference["uid"], _KIND, reference["apiVersion"])
    if name := pod.get("labels", {}).get(_LABEL):
        workflow = cluster.workflow(name)
        if workflow is not None:
            return Owner(name, workflow["metadata"]["uid"])
    return None
