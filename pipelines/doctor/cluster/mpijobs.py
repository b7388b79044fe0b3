"""mpi-operator's CRD, and the Training Operator's of the same name and another version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.cluster.api import Refused
from components.train.mpijob.job import KIND
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Finding, missing, note, ok

_CRD = f"{KIND.plural}.{KIND.group}"
_INSTALL = "install mpi-operator 0.6 or later"
# A resource of the Training Operator, and its served version.
_OF_THE_TRAINING_OPERATOR = ("tfjobs", "v1")


def check(place: Place) -> Iterator[Finding]:
    served = place.api.served(KIND.group, KIND.plural)
    if not served:
        yield missing(f"no {_CRD}", _INSTALL)
        return
    if KIND.version not in served:
        yield missing(
            f"{_CRD} serves {', '.join(served)}, as a Training Operator's does, and not {KIND.version}",
            f"the two CRDs cannot coexist: remove the Training Operator and this CRD, then {_INSTALL}",
        )
        return
    if _is_old(place):
        yield note(f"{_CRD} serves {KIND.version}, of an mpi-operator before 0.6", _INSTALL)
    else:
        yield ok(f"{_CRD} serves {KIND.version}")
    kind, version = _OF_THE_TRAINING_OPERATOR
    if version in place.api.served(KIND.group, kind):
        yield note(
            "a Training Operator is here too, and its MPIJobs are v1",
            "start it without them: --enable-scheme for each other kind",
        )


def _is_old(place: Place) -> bool:
    """Whether the schema lacks runPolicy.managedBy, added in 0.6 (mpi-operator's RELEASE.md)."""
    try:
        crd = place.api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{_CRD}") or {}
    except Refused:  # few accounts may read it; discovery covers the rest
        return False
    for version in crd.get("spec", {}).get("versions", ()):
        if version["name"] == KIND.version:
            policy = _below(version, "schema", "openAPIV3Schema", "properties", "spec", "properties", "runPolicy")
            return "managedBy" not in policy.get("properties", {})
    return False


def _below(body: dict[str, Any], *keys: str) -> dict[str, Any]:
    for key in keys:
        body = body.get(key) or {}
    return body
