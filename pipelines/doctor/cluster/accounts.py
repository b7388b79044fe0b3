"""The service accounts of steps and MPIJobs, and their image pull secrets."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import suppress

from components.cluster.api import Refused
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Finding, missing, note, ok

_APPLY = "kubectl apply -k the overlay"
_FILES = {"kubernetes.io/dockerconfigjson": ".dockerconfigjson", "kubernetes.io/dockercfg": ".dockercfg"}


def check(place: Place) -> Iterator[Finding]:
    secrets = {(place.job_namespace, name): "mpijob.yaml" for name in place.job.image_pull_secrets}
    for namespace, name in dict.fromkeys(place.accounts()):
        try:
            account = place.api.object("serviceaccounts", name, namespace)
        except Refused as no:
            yield note(f"service account {name} may not be looked up ({no.status})")
            continue
        if account is None:
            yield missing(f"no service account {name} in {namespace}", f"{_APPLY}, or name another one")
            continue
        yield ok(f"service account {name}")
        for reference in account.get("imagePullSecrets") or ():
            secrets[namespace, reference["name"]] = f"service account {name}"
    registry = place.registry.partition("/")[0]
    for (namespace, name), named_by in secrets.items():
        yield _pull_secret(place, namespace, name, named_by, registry)


def _pull_secret(place: Place, namespace: str, name: str, named_by: str, registry: str) -> Finding:
    subject = f"pull secret {name}, named by {named_by}"
    make = f"kubectl -n {namespace} create secret docker-registry {name} --docker-server={registry or 'REGISTRY'} ..."
    try:
        secret = place.api.object("secrets", name, namespace)
    except Refused as no:
        return note(f"{subject}, may not be looked up ({no.status})")
    if secret is None:
        return missing(f"{subject}, is not in {namespace}", make)
    file = _FILES.get(secret.get("type", ""))
    if file is None or file not in (secret.get("data") or {}):
        return missing(f"{subject}, is of type {secret.get('type')}, not a pull secret", f"recreate it: {make}")
    known = _registries(secret["data"][file], file)
    if registry and known and registry not in known:
        return note(f"{subject}, is for {', '.join(sorted(known))}, not for {registry}", f"make one for it: {make}")
    return ok(f"{subject}, is there")


def _registries(encoded: str, file: str) -> set[str]:
    """The registries of a pull secret; empty if it cannot be parsed."""
    with suppress(ValueError, AttributeError):
        body = json.loads(base64.b64decode(encoded))
        entries = body.get("auths", {}) if file == ".dockerconfigjson" else body
        return {name.partition("://")[2].partition("/")[0] or name.partition("/")[0] for name in entries}
    return set()
