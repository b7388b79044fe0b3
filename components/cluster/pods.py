"""Pods: that of this step, with the owner of what it creates, and one-line reasons why others do not start or end.

The owner is the Workflow of the pipeline run. The step's own pod is a worse one: the loss of its node would delete a
healthy job, and failed pods live as long as their Workflow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from components.cluster.api import Cluster, Json, Refused
from components.errors import KfrecError

T = TypeVar("T")
IMAGE_REASONS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
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
    return Pod(*(os.environ.get(f"POD_{field}", "") for field in ("NAMESPACE", "NAME", "UID")))


def find_owner(cluster: Cluster, pod: Pod) -> Owner | None:
    """The Workflow of a step's pod, or the pod itself if the Workflow cannot be found.

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


def waiting_for(pods: Sequence[Json], events: Sequence[Json]) -> Iterator[str]:
    """Why pods are pending: no node, no image, no quota."""
    for pod in pods:
        status, name = pod.get("status", {}), pod["metadata"]["name"]
        if status.get("phase") != "Pending":
            continue
        for entry in status.get("conditions", ()):
            if entry["type"] == "PodScheduled" and entry["status"] == "False":
                yield f"{name} has no node: {one_line(entry.get('message') or entry.get('reason'))}"
        if refused := image_refused(pod):
            yield f"{name} cannot get its image: {refused}"
    for event in events:
        if event.get("reason") == "FailedCreate" or "exceeded quota" in (event.get("message") or ""):
            yield f"pods cannot be created: {one_line(event.get('message'))}"


def image_refused(pod: Json) -> str:
    """Why a pod's image cannot be pulled, or an empty text."""
    for container in pod.get("status", {}).get("containerStatuses", ()):
        waiting = container.get("state", {}).get("waiting") or {}
        if waiting.get("reason") in IMAGE_REASONS:
            return f"{container.get('image', '')} {waiting['reason']} {one_line(waiting.get('message'))}".strip()
    return ""


def exit_of(pod: Json) -> str:
    """Why a pod ended badly, or an empty text: "OOMKilled, exit code 137", "Evicted: low on memory"."""
    status = pod.get("status", {})
    if status.get("reason"):
        return f"{status['reason']}: {one_line(status.get('message'))}".removesuffix(": ")
    for container in status.get("containerStatuses", ()):
        for state in (container.get("state", {}), container.get("lastState", {})):
            ended = state.get("terminated") or {}
            if ended.get("exitCode"):
                return f"{ended.get('reason') or 'Error'}, exit code {ended['exitCode']}"
    return ""


def diagnosed(what: str, question: Callable[[], T], echo: Callable[[str], None]) -> T | None:
    """The result of a diagnostic request, or None if it fails: a failed diagnosis must not end a step."""
    try:
        return question()
    except Exception as error:  # a diagnosis may fail in any way
        echo(f"cannot see {what} ({error}); continuing without it")
        return None


def one_line(text: str | None) -> str:
    """A message on one line."""
    return " ".join((text or "").split())
