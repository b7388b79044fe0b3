"""The security context of the steps' pods: the restricted Pod Security Standard and a read-only root file system."""

from __future__ import annotations

from typing import Any

USER = 1000


def pod_security() -> dict[str, Any]:
    """The securityContext of a pod; volumes belong to its group."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """The securityContext of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
