"""Allocatable GPUs of the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.cluster.api import Refused
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Finding, note, ok

_WITHOUT = (
    "for a cluster without GPUs: steps: {preprocess: {gpus: 0, tolerations: []}} in --settings, gpus_per_worker=0"
)


def check(place: Place) -> Iterator[Finding]:
    try:
        nodes = nodes_of(place)
    except Refused as no:
        yield note(f"nodes may not be listed ({no.status})", "run kubectl describe nodes with an account that may")
        return
    names = {place.job.gpu_resource: "mpijob.yaml"}
    names |= {step.gpu_resource: "the settings" for step in place.settings.steps.values() if step.gpus}
    for name in names:
        counts = [_count(node, name) for node in nodes]
        having = sum(count > 0 for count in counts)
        if having:
            yield ok(f"{name}: {sum(counts)} on {having} of {len(nodes)} nodes")
        else:
            yield note(
                f"{name}: on none of {len(nodes)} nodes",
                f"install the device plugin, unless nodes come when asked for; {_WITHOUT}",
            )
    wanted = place.job.node_selector
    if wanted and not any(wanted.items() <= (node["metadata"].get("labels") or {}).items() for node in nodes):
        labels = ", ".join(f"{label}={value}" for label, value in wanted.items())
        yield note(
            f"no node has the labels of mpijob.yaml ({labels})",
            "correct node_selector, unless nodes come when asked for",
        )


def nodes_of(place: Place) -> list[dict[str, Any]]:
    """The nodes.

    Raises:
        Refused: the caller may not list them.
    """
    return list((place.api.get("/api/v1/nodes", limit="500") or {}).get("items", ()))


def _count(node: Mapping[str, Any], resource: str) -> int:
    return int(node.get("status", {}).get("allocatable", {}).get(resource, 0))
