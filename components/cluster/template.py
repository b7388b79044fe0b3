"""What the pods of steps, jobs and servers have in common: settings, labels and security contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from typing_extensions import TypedDict

from components.settings_file import CLOSED, Several

_USER = 1000


class Toleration(TypedDict, total=False):
    """A toleration, as in a pod."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    key: str
    operator: Literal["Exists", "Equal", "Gt", "Lt"]
    value: str
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""]
    tolerationSeconds: int


class NodeAffinity(TypedDict, total=False):
    """A pod's ``affinity.nodeAffinity``."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    requiredDuringSchedulingIgnoredDuringExecution: Mapping[str, Any]
    preferredDuringSchedulingIgnoredDuringExecution: list[Any]


class Affinity(TypedDict, total=False):
    """An affinity, as in a pod; the API server drops a name that it does not know."""

    __pydantic_config__ = CLOSED  # type: ignore[misc]
    nodeAffinity: NodeAffinity
    podAffinity: Mapping[str, Any]
    podAntiAffinity: Mapping[str, Any]


@dataclass(frozen=True)
class PodSettings:
    """Settings that the pods of steps and those of jobs share, from YAML files.

    Attributes:
        image_pull_secrets: names of secrets for the registry of the image.
        node_selector: label: value of the nodes.
        tolerations: as in a pod; those for GPU nodes are added.
        environment: variable: value, for every container.
    """

    image: str = ""
    image_pull_secrets: Several[str] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Several[Toleration] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    gpu_resource: str = "nvidia.com/gpu"


def own_labels(component: str) -> dict[str, str]:
    """The labels of kfrec's objects and pods."""
    return {"app.kubernetes.io/name": "kfrec", "app.kubernetes.io/part-of": "kfrec",
            "app.kubernetes.io/component": component}  # fmt: skip


def pod_security() -> dict[str, Any]:
    """The securityContext of a pod by the restricted Pod Security Standard; volumes belong to its group."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _USER,
        "runAsGroup": _USER,
        "fsGroup": _USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """The securityContext of a container, with a read-only root file system."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
