"""What the pods of every object that a step creates have in common: their settings, and their specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from typing_extensions import TypedDict

from components.settings_file import CLOSED, Several

_USER = 1000
NO_MESH = {"sidecar.istio.io/inject": "false"}


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
    """A cluster's settings of pods, from a YAML file.

    Attributes:
        namespace: where the objects run; empty is the namespace of the step's own pod.
        image_pull_policy: as in a pod.
        image_pull_secrets: names of secrets.
        service_account: of the pods; it needs no rights in Kubernetes, only in the object storage.
        node_selector: label: value of the nodes.
        tolerations: beside the one for GPU nodes.
        affinity: as in a pod.
        environment: variable: value, for every container.
        labels: more labels of the pods.
        annotations: more annotations of the pods.
        gpu_resource: name of the GPU resource.
    """

    namespace: str = ""
    image: str = ""
    image_pull_policy: str = "IfNotPresent"
    image_pull_secrets: Several[str] = ()
    service_account: str = "kfrec-worker"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: Several[Toleration] = ()
    affinity: Affinity = field(default_factory=Affinity)
    priority_class: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    gpu_resource: str = "nvidia.com/gpu"

    def placed(self, gpus: int) -> dict[str, Any]:
        """The nodes of a pod, with the toleration for GPU nodes if it has GPUs."""
        tolerations: list[dict[str, Any]] = [dict(toleration) for toleration in self.tolerations]
        if gpus:
            tolerations.append({"key": self.gpu_resource, "operator": "Exists", "effect": "NoSchedule"})
        return {
            "nodeSelector": dict(self.node_selector),
            "tolerations": tolerations,
            "affinity": dict(self.affinity),
        }


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


def named(environment: Mapping[str, str]) -> list[dict[str, Any]]:
    """Variables as a container's ``env``."""
    return [{"name": name, "value": value} for name, value in environment.items()]


def container(
    name: str,
    command: Sequence[str],
    settings: PodSettings,
    env: Sequence[Mapping[str, Any]],
    cpu: str,
    limits: Mapping[str, str],
    mounts: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """A container that requests ``cpu``, and ``limits`` as its limits, too."""
    return {
        "name": name,
        "image": settings.image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": list(command),
        "env": list(env),
        "resources": {"requests": {"cpu": cpu, **limits}, "limits": dict(limits)},
        "securityContext": container_security(),
        "volumeMounts": [dict(mount) for mount in mounts],
    }


def pod_spec(
    settings: PodSettings, only: Mapping[str, Any], volumes: Sequence[Mapping[str, Any]], placed: Mapping[str, Any]
) -> dict[str, Any]:
    """The specification of a pod of one container, without empty entries."""
    spec: dict[str, Any] = {
        "serviceAccountName": settings.service_account,
        "automountServiceAccountToken": False,
        "securityContext": pod_security(),
        "containers": [dict(only)],
        "volumes": [dict(volume) for volume in volumes],
        "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
        "priorityClassName": settings.priority_class,
        **placed,
    }
    return {name: value for name, value in spec.items() if value not in ("", {}, [])}
