"""The images of steps and MPIJobs: names, digests of those cached on nodes, and failed pulls.

Nothing is pulled: kfrec's existing pods, such as the MLflow server's, show whether nodes can pull.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from components.cluster.api import Refused
from components.cluster.pods import image_refused
from components.steps.images import image
from pipelines.doctor.cluster.gpus import nodes_of
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Finding, missing, note, ok

_OURS = "app.kubernetes.io/part-of=kfrec"


def check(place: Place) -> Iterator[Finding]:
    images = {
        image(step, place.registry): "KFREC_REGISTRY in kfrec-config, or --registry" for step in place.settings.steps
    }
    images[place.job.image] = "image in mpijob.yaml"
    nodes: Sequence[Mapping[str, Any]] | None
    try:
        nodes = nodes_of(place)
    except Refused:
        nodes = None
    for name, where in images.items():
        yield _finding(name, where, nodes)
    yield from _failed_pulls(place)


def _failed_pulls(place: Place) -> Iterator[Finding]:
    """Pods of kfrec whose image cannot be pulled."""
    try:
        found = place.api.get(f"/api/v1/namespaces/{place.api.namespace}/pods", labelSelector=_OURS, limit="500")
    except Refused as no:
        yield note(f"pods may not be listed ({no.status}), so failed pulls are not seen")
        return
    for pod in (found or {}).get("items", ()):
        if reason := image_refused(pod):
            yield missing(
                f"pod {pod['metadata']['name']} cannot get its image: {reason}",
                "push it there, correct its name, or add the component pull-secret",
            )


def _finding(name: str, where: str, nodes: Sequence[Mapping[str, Any]] | None) -> Finding:
    held = [names for node in nodes or () if (names := _names(node, name))]
    digests = sorted({each.partition("@sha256:")[2][:12] for names in held for each in names if "@sha256:" in each})
    if held:
        suffix = f" (sha256:{', '.join(digests)})" if digests else ""
        return ok(f"{name}: on {len(held)} of {len(nodes or ())} nodes{suffix}")
    if "/" in name:
        return ok(f"{name}: pulled when first needed")
    remedy = f"set {where}"
    if nodes is None:
        return note(f"{name} names no registry; fine only where the nodes have it already", remedy)
    return missing(f"{name} names no registry, and no node has it", remedy)


def _names(node: Mapping[str, Any], wanted: str) -> list[str]:
    """All names of an image on a node, with digests; container runtimes expand docker.io/library/."""
    for entry in node.get("status", {}).get("images") or ():
        names = entry.get("names") or ()
        if wanted in names or f"docker.io/library/{wanted}" in names:
            return list(names)
    return []
