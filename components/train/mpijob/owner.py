"""What a job belongs to: the Workflow of the pipeline run.

The step's own pod is the worse owner: a node that is lost would take a healthy job along with its watcher, and pods
that failed are kept for as long as their Workflow.
"""

from __future__ import annotations

from typing import Any

from components.errors import KfrecError
from components.train.mpijob.cluster import Cluster, Refused
from components.train.mpijob.job import Owner

_KIND, _LABEL = "Workflow", "workflows.argoproj.io/workflow"


def find_owner(cluster: Cluster, namespace: str, pod: str, uid: str) -> Owner | None:
    """The Workflow of a step's pod, or the pod itself where the Workflow cannot be found.

    Args:
        cluster: where the job is to run.
        namespace: of the pod.
        pod: its name; empty is no pod.
        uid: its uid.

    Returns:
        The owner; None where there is no pod or it is in another namespace: Kubernetes removes objects whose owner is
        not in theirs.
    """
    if not (pod and uid) or namespace not in ("", cluster.namespace):
        return None
    itself = Owner(pod, uid, kind="Pod", api_version="v1")
    try:
        found = cluster.pod(pod)
        return (_workflow(cluster, found["metadata"]) if found else None) or itself
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
