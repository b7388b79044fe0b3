"""Pods inside any object, and what the restricted Pod Security Standard has against one.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted, and a read-only root file system.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]
VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


def pod_templates(body: Json) -> Iterator[Json]:
    """The pod templates of an object, whatever its kind."""
    if body.get("kind") == "MPIJob":
        yield from (replica["template"] for replica in body["spec"]["mpiReplicaSpecs"].values())
    elif body.get("kind") == "CronJob":
        yield body["spec"]["jobTemplate"]["spec"]["template"]
    elif "template" in body.get("spec", {}):
        yield body["spec"]["template"]


def containers(spec: Json) -> list[Json]:
    return [*spec.get("initContainers", ()), *spec["containers"]]


def violations(spec: Json) -> list[str]:
    """One entry for each thing that the standard refuses; what a container says stands above what its pod says."""
    pod = spec.get("securityContext", {})
    found = []
    if any(spec.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        found.append("shares the host's namespaces")
    if pod.get("sysctls"):
        found.append("changes the kernel's settings")
    for volume in spec.get("volumes", ()):
        if not set(volume) - {"name"} <= VOLUMES:
            found.append(f"mounts {volume['name']}, which is none of the volumes that are allowed")
    for container in containers(spec):
        found += [f"{container['name']} {what}" for what in _of_container(container, pod)]
    return found


def _of_container(container: Json, pod: Json) -> Iterator[str]:
    own = container.get("securityContext", {})
    both = {**pod, **own}
    if both.get("runAsNonRoot") is not True or not both.get("runAsUser"):
        yield "runs as root"
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "has no seccomp profile"
    if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
        yield "may gain privileges"
    if own.get("capabilities", {}).get("drop") != ["ALL"] or own["capabilities"].get("add"):
        yield "has capabilities"
    if not own.get("readOnlyRootFilesystem"):
        yield "writes to its root file system"
    if own.get("procMount", "Default") != "Default":
        yield "sees the host's /proc"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "takes a port of the host"
