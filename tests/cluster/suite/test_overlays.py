"""Every overlay and component on a real API server: applied, applied again, and deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import kubectl as k8s
from tests.cluster.suite.conftest import MANIFESTS, in_namespace
from tests.manifests.pods import pod_templates

Json = dict[str, Any]
OVERLAYS = sorted(path.name for path in (MANIFESTS / "overlays").iterdir())
COMPONENTS = sorted(path.name for path in (MANIFESTS / "components").iterdir())
# Components that change what others bring.
WITH = {"placement": ("schedules", "postgres", "dask"), "ephemeral-storage": ()}
# Kinds that other projects define; where the cluster has no definition, a test brings one without a schema.
FOREIGN = {
    "authorizationpolicies.security.istio.io": ("AuthorizationPolicy", "v1", "Namespaced"),
    "localqueues.kueue.x-k8s.io": ("LocalQueue", "v1beta2", "Namespaced"),
    "clusterqueues.kueue.x-k8s.io": ("ClusterQueue", "v1beta2", "Cluster"),
    "resourceflavors.kueue.x-k8s.io": ("ResourceFlavor", "v1beta2", "Cluster"),
    "inferenceservices.serving.kserve.io": ("InferenceService", "v1beta1", "Namespaced"),
}
# What Kubernetes itself puts into a namespace, or writes about what others put there.
OF_THE_CLUSTER = {
    ("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"), "Event", "Endpoints", "EndpointSlice",
    "ControllerRevision",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def definitions() -> Iterator[None]:
    made = []
    for name, (kind, version, scope) in FOREIGN.items():
        if k8s.found("default", "crd", name) is None:
            plural, _, group = name.partition(".")
            schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
            spec = {"group": group, "names": names, "scope": scope, "versions": [served]}
            k8s.apply([{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                        "metadata": {"name": name}, "spec": spec}])  # fmt: skip
            made.append(name)
    for name in made:
        k8s.kubectl("wait", "--for=condition=Established", f"crd/{name}")
    yield
    for name in made:
        k8s.kubectl("delete", "crd", name)


def objects_in(namespace: str) -> set[tuple[str, str]]:
    """Kind and name of all that was put into a namespace, without pods that are ending: the kubelet takes its time."""
    kinds = k8s.kubectl("api-resources", "--namespaced", "--verbs=list,create", "-o", "name").split()
    there = k8s.listed(namespace, ",".join(kinds))
    ending = [body for body in there if body["kind"] == "Pod" and "deletionTimestamp" in body["metadata"]]
    named = {(body["kind"], body["metadata"]["name"]) for body in there if body not in ending}
    return {entry for entry in named if not {entry, entry[0]} & OF_THE_CLUSTER}


def applied_and_deleted(folder: Path, namespace: str) -> None:
    """Applies a kustomization twice, checks its pods, and deletes it."""
    objects = list(yaml.safe_load_all(k8s.kubectl("kustomize", str(folder))))
    first = k8s.tried("apply", "-k", str(folder))
    assert first.returncode == 0, first.stderr
    assert "would violate" not in first.stderr, first.stderr
    again = k8s.kubectl("apply", "-k", str(folder)).splitlines()
    # The server completes the claims of a StatefulSet, and drops the namespace that kustomize gives to a policy of the
    # cluster, so kubectl always takes these for others; the comparison below has the server's view.
    others = ("statefulset.apps/", "validatingadmissionpolicy.")
    assert not [line for line in again if not line.endswith("unchanged") and not line.startswith(others)]
    changes = k8s.tried("diff", "-k", str(folder))
    assert changes.returncode == 0, changes.stdout or changes.stderr
    for body in objects:
        for template in pod_templates(body):
            assert_pod_is_let_in(template, namespace, body["spec"].get("volumeClaimTemplates", ()))
    k8s.kubectl("delete", "-k", str(folder), "--wait=true")
    claims = {name for kind, name in objects_in(namespace) if kind == "PersistentVolumeClaim"}
    # Kubernetes keeps the claims of a StatefulSet: the database outlives a deleted overlay.
    assert claims <= {"data-kfrec-postgres-0"}
    k8s.wait_for(lambda: objects_in(namespace) <= {("PersistentVolumeClaim", "data-kfrec-postgres-0")})


def assert_pod_is_let_in(template: Json, namespace: str, claims: Iterable[Json] = ()) -> None:
    spec = {"restartPolicy": "Never", **template["spec"]}
    names = [claim["metadata"]["name"] for claim in claims]
    own = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    spec["volumes"] = [*spec.get("volumes", ()), *own]
    # No account, class or volume of another object: only what the pod's own specification is matters here.
    for name in ("serviceAccountName", "priorityClassName"):
        spec.pop(name, None)
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": namespace}, "spec": spec}
    done = k8s.tried("create", "--dry-run=server", "-f", "-", given=json.dumps(body))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_applied_twice_and_deleted(overlay: str, namespace: str, tmp_path: Path) -> None:
    applied_and_deleted(without_namespace(tmp_path, namespace, MANIFESTS / "overlays" / overlay), namespace)


@pytest.mark.parametrize("component", COMPONENTS)
def test_a_component_is_applied_twice_and_deleted(component: str, namespace: str, tmp_path: Path) -> None:
    needed = (*WITH.get(component, ()), component)
    components = tuple(MANIFESTS / "components" / name for name in needed)
    folder = in_namespace(tmp_path / "k", namespace, MANIFESTS / "base", components=components)
    applied_and_deleted(folder, namespace)


@pytest.mark.parametrize("folder", ["jobs", "benchmark"])
def test_pods_without_an_overlay_are_restricted_too(folder: str, namespace: str, tmp_path: Path) -> None:
    made = in_namespace(tmp_path / "k", namespace, MANIFESTS / folder)
    for body in yaml.safe_load_all(k8s.kubectl("kustomize", str(made))):
        for template in pod_templates(body):
            assert_pod_is_let_in(template, namespace)


def without_namespace(folder: Path, namespace: str, overlay: Path) -> Path:
    """The overlay in another namespace, which exists already."""
    made = in_namespace(folder / "k", namespace, overlay)
    if (overlay / "namespace.yaml").exists():
        patch = "{apiVersion: v1, kind: Namespace, metadata: {name: any}, $patch: delete}"
        body = yaml.safe_load((made / "kustomization.yaml").read_text())
        body["patches"] = [{"target": {"kind": "Namespace"}, "patch": patch}]
        (made / "kustomization.yaml").write_text(yaml.safe_dump(body))
    return made
