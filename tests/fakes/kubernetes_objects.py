"""The other objects of a cluster besides MPIJobs and their pods, and its API's kinds, versions and rights."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
Answer = tuple[int, Json | str]
REVIEWS = "/apis/authorization.k8s.io/v1"
_CORE_KINDS = {
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "serviceaccounts": "ServiceAccount",
    "services": "Service",
}


class KubernetesObjects:
    """The objects and the rights of accounts.

    Attributes:
        namespaces: that exist, and their labels.
        core: (plural, namespace, name) to objects of the core group.
        crds: name to CustomResourceDefinition.
        nodes: nodes.
        ready: service to how many of its pods are ready.
        unreadable: plurals that the calling account may not read.
        refused: (account, resource, verb) that an account may not use; the calling account is "".
        may_impersonate: whether the calling account may impersonate others.
        version: of Kubernetes.
    """

    def __init__(self) -> None:
        self.namespaces: dict[str, dict[str, str]] = {"kubeflow": {}}
        self.core: dict[tuple[str, str, str], Json] = {}
        self.crds: dict[str, Json] = {}
        self.nodes: list[Json] = []
        self.ready: dict[str, int] = {}
        self.unreadable: set[str] = set()
        self.refused: set[tuple[str, str, str]] = set()
        self.may_impersonate = True
        self.version = "v1.33.1"

    def put(self, plural: str, name: str, namespace: str = "kubeflow", **fields: Any) -> None:
        """Adds an object of the core group; ``data`` of a secret is plain text."""
        if plural == "secrets":
            fields["type"] = fields.get("type", "Opaque")
            coded = {key: base64.b64encode(value.encode()).decode() for key, value in fields.get("data", {}).items()}
            fields["data"] = coded
        metadata = {"name": name, "namespace": namespace}
        self.core[plural, namespace, name] = {
            "apiVersion": "v1", "kind": _CORE_KINDS[plural], "metadata": metadata, **fields,
        }  # fmt: skip

    def define(self, plural: str, group: str, *versions: str) -> None:
        """Adds a CRD that serves these versions."""
        served: list[Json] = [{"name": version, "served": True, "storage": False} for version in versions]
        self.crds[f"{plural}.{group}"] = {"spec": {"group": group, "names": {"plural": plural}, "versions": served}}

    def get(self, path: str, query: Mapping[str, str]) -> Answer:
        """The API server's response to a read request; for a path of no kind of object it is plain text."""
        words = path.strip("/").split("/")
        if path == "/version":
            return 200, {"major": "1", "minor": "33", "gitVersion": self.version}
        if words[:2] == ["api", "v1"] and words[2:] == ["nodes"]:
            return self._named("nodes", "", {"kind": "NodeList", "metadata": {}, "items": self.nodes})
        if words[:3] == ["api", "v1", "namespaces"] and len(words) == 4:
            labels = self.namespaces.get(words[3])
            found = {"kind": "Namespace", "metadata": {"name": words[3], "labels": labels}}
            return self._named("namespaces", words[3], found if labels is not None else None)
        if words[:3] == ["api", "v1", "namespaces"] and len(words) == 6:
            _, _, _, namespace, plural, name = words
            return self._named(plural, name, self.core.get((plural, namespace, name)))
        if words[:2] == ["apis", "discovery.k8s.io"]:
            name = query["labelSelector"].partition("=")[2]
            endpoints = [{"conditions": {"ready": True}}] * self.ready.get(name, 0) + [{"conditions": {"ready": False}}]
            return self._named("endpointslices", "", {"items": [{"endpoints": endpoints}]})
        if words[:1] == ["apis"]:
            return self._of_a_group(words[1:])
        return 404, "404 page not found\n"

    def review(self, path: str, body: Json, user: str) -> Answer:
        """Reviews whether an account has a right; with ``user``, by impersonation."""
        if user and not self.may_impersonate:
            return forbidden("serviceaccounts", user.rpartition(":")[2], "impersonate")
        attributes = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
        refused = (user.rpartition(":")[2], resource, attributes["verb"]) in self.refused
        # RBAC has no opinion on what no role allows: neither denied nor a reason.
        status: Json = (
            {"allowed": False} if refused else {"allowed": True, "reason": 'RBAC: allowed by RoleBinding "kfrec"'}
        )
        return 201, {**body, "status": status}

    def _named(self, plural: str, name: str, found: Json | None) -> Answer:
        if plural in self.unreadable:
            return forbidden(plural, name, "get" if name else "list")
        return (200, found) if found is not None else status(404, "NotFound", f'{plural} "{name}" not found')

    def _of_a_group(self, words: list[str]) -> Answer:
        group = words[0]
        served: dict[str, list[str]] = {}
        for crd in self.crds.values():
            if crd["spec"]["group"] == group:
                for version in (version["name"] for version in crd["spec"]["versions"] if version["served"]):
                    served.setdefault(version, []).append(crd["spec"]["names"]["plural"])
        if len(words) == 1 and served:
            versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in served]
            return 200, {"kind": "APIGroup", "name": group, "versions": versions}
        if len(words) == 2 and words[1] in served:
            names = [name for plural in served[words[1]] for name in (plural, f"{plural}/status")]
            return 200, {"kind": "APIResourceList", "resources": [{"name": name} for name in names]}
        return 404, "404 page not found\n"


def status(code: int, reason: str, message: str) -> Answer:
    return code, {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "message": message, "code": code,
    }  # fmt: skip


def forbidden(plural: str, name: str, verb: str) -> Answer:
    named = f'{plural} "{name}"' if name else plural
    return status(403, "Forbidden", f'{named} is forbidden: User "ann" cannot {verb} resource "{plural}"')
