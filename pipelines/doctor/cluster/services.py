"""Addresses that only pods of the cluster can reach, checked from outside."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from components.cluster.api import Refused
from components.errors import KfrecError
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.finding import Finding, missing, note


def service_state(place: Place, url: str, forward: str) -> Finding | None:
    """The state of the Kubernetes service behind an address that only the cluster's DNS resolves.

    Args:
        place: the installation.
        url: the address.
        forward: how to reach it, after a port-forward.

    Returns:
        None if the name resolves here, or the service cannot be looked up.
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # not an address; the request reports it
        return None
    if place.kubernetes is None or not host or _resolves(host):
        return None
    name, namespace = [*host.split("."), ""][:2]
    space = namespace or place.api.namespace
    try:
        if place.api.object("services", name, space) is None:
            return missing(f"{url}: there is no service {name} in namespace {space}", "correct the address")
        ready = _ready(place, name, space)
    except (Refused, KfrecError):
        return None
    if not ready:
        return missing(
            f"{url}: no pod of the service {name} is ready",
            f"kubectl -n {space} describe endpoints {name}; see its pods",
        )
    return note(
        f"{url}: only pods of the cluster can reach it; {ready} behind it ready",
        f"run kfrec doctor in a pod, or kubectl -n {space} port-forward service/{name} and {forward}",
    )


def _resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except (OSError, UnicodeError):
        return False


def _ready(place: Place, service: str, namespace: str) -> int:
    """The number of ready endpoints of a service."""
    slices = place.api.get(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices",
        labelSelector=f"kubernetes.io/service-name={service}",
    )
    endpoints = [endpoint for each in (slices or {}).get("items", ()) for endpoint in each.get("endpoints") or ()]
    # Kubernetes defines a missing condition as ready.
    return sum((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
