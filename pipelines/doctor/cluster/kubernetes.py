"""The Kubernetes API and the namespace."""

from __future__ import annotations

from collections.abc import Iterator

from components.cluster.api import Refused
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import MISSING, Finding, missing, ok


def check(place: Place) -> Iterator[Finding]:
    if place.kubernetes is None:
        yield Finding(MISSING, place.unanswered)
        return
    namespace = place.kubernetes.namespace
    try:
        there = place.kubernetes.get(f"/api/v1/namespaces/{namespace}") is not None
    except Refused:
        there = True  # not every account may read it; the following checks look at its content
    if there:
        yield ok(f"{place.version} at {place.kubernetes.host}, namespace {namespace}")
    else:
        yield missing(f"no namespace {namespace} at {place.kubernetes.host}", "give --namespace NAME")
