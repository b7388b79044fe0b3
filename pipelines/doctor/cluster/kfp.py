"""Kubeflow Pipelines: version, features of that version, and this user's access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from pipelines.cluster.connection import ENDPOINT, ask, version_in
from pipelines.doctor.cluster.api import TIMEOUT
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.cluster.services import service_state
from pipelines.doctor.finding import Finding, missing, note, ok

# Older servers do not replace the placeholder of the run id: all runs share one literal text.
_OLDEST = (2, 5)
# The first version that can store pipelines as Kubernetes objects.
_NATIVE = (2, 17)
_FORWARD = "give --endpoint http://localhost:8888"


def check(place: Place) -> Iterator[Finding]:
    if not place.endpoint:
        yield missing("no address of KFP's API", f"give --endpoint URL or set {ENDPOINT}")
        return
    if (finding := service_state(place, place.endpoint, _FORWARD)) is not None:
        yield finding
        return
    health = ask(place.endpoint, timeout=TIMEOUT)
    several = bool(health.get("multi_user"))
    yield _version(place.endpoint, health)
    namespace = place.user or (place.kubernetes.namespace if place.kubernetes else "")
    if several and not namespace:
        yield missing("this KFP is multi-user", "give --namespace NAME, the user's namespace")
        return
    query = {"page_size": "1", **({"namespace": namespace} if several else {})}
    ask(place.endpoint, f"experiments?{urlencode(query)}", TIMEOUT)
    yield ok(f"KFP lets this user list experiments{f' of namespace {namespace}' if several else ''}")


def _version(endpoint: str, health: Mapping[str, Any]) -> Finding:
    version = version_in(health)
    shown = f"{health.get('tag_name') or 'no version'} at {endpoint}"
    if version is None:
        return note(
            f"{shown}: KFP does not report its version",
            "check that it is 2.5 or newer",
        )
    if version < _OLDEST:
        return missing(
            f"{shown}: KFP before 2.5 gives every run the same literal run id",
            "upgrade Kubeflow Pipelines to 2.5 or newer",
        )
    if health.get("pipeline_store") == "kubernetes":
        return ok(f"{shown}; keeps pipelines as Kubernetes objects")
    return ok(f"{shown}{'; can keep pipelines as Kubernetes objects' if version >= _NATIVE else ''}")
