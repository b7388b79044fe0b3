"""Checks of the servers that the steps use: KFP, MLflow and the object store."""

from __future__ import annotations

import os
import socket
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import requests

from components.cluster.api import Refused
from components.errors import KfrecError
from components.secrets import without_password
from components.storage import Store, Unavailable, is_uri, open_store
from components.storage.s3 import KFP_STORE
from components.tracking.store import prepare
from pipelines.cluster.connection import ENDPOINT, ask
from pipelines.doctor.cluster.examined import CONFIG_MAP, LAUNCHER, ROOT, TIMEOUT, Examined, kfp_version
from pipelines.doctor.examination import MISSING, NOTE, Finding, missing, note, ok

# Older servers do not replace the placeholder of the run id: all runs share one literal text.
_OLDEST = (2, 5)
# Since then KFP retries the tasks of a nested DAG, which the steps of a retraining are.
_RETRIES_NESTED = (2, 14)
# KFP's own object store: SeaweedFS since 2.16, MinIO before.
_KFP_STORES = (KFP_STORE, "http://minio-service.kubeflow:9000")
_ADDRESS = "AWS_ENDPOINT_URL"
# Keys of kfrec-config that name a folder of a bucket.
_FOLDERS = ("MLFLOW_ARTIFACTS_DESTINATION", "KFREC_LOGS")
_STORE_SECONDS = 15.0
_MLFLOW, _MLFLOW_USER = "MLFLOW_TRACKING_URI", "MLFLOW_TRACKING_USERNAME"


def pipelines(examined: Examined) -> Iterator[Finding]:
    """KFP: its version, and this user's access."""
    if not examined.endpoint:
        yield missing("no address of KFP's API", f"give --endpoint URL or set {ENDPOINT}")
        return
    if finding := _service_state(examined, examined.endpoint, "give --endpoint http://localhost:8888"):
        yield finding
        return
    health = ask(examined.endpoint, timeout=TIMEOUT)
    version, oldest = kfp_version(examined, health)
    shown = f"{version} at {examined.endpoint}"
    if oldest is None:
        yield note(f"{shown}", "kfrec needs Kubeflow Pipelines 2.5 or newer")
    elif oldest < _OLDEST:
        yield missing(f"{shown}: every run has the same literal run id", "upgrade Kubeflow Pipelines to 2.5 or newer")
    elif oldest < _RETRIES_NESTED:
        yield note(f"{shown}: does not retry the steps of a retraining", "upgrade Kubeflow Pipelines to 2.14 or newer")
    namespace = examined.user or (examined.kubernetes.namespace if examined.kubernetes else "")
    query = {"page_size": "1", **({"namespace": namespace} if health.get("multi_user") else {})}
    ask(examined.endpoint, f"experiments?{urlencode(query)}", TIMEOUT)
    yield ok(f"{shown}: lets this user list experiments")


def mlflow(examined: Examined) -> Iterator[Finding]:
    uri = examined.environment.get(_MLFLOW, "").strip()
    if not uri:
        yield missing(f"{_MLFLOW} is not set", "set it in the config map kfrec-config")
    elif not uri.startswith(("http://", "https://")):
        yield missing(
            f"{_MLFLOW} is {without_password(uri)}", "name an MLflow server: steps of a cluster share no disk"
        )
    elif finding := _service_state(examined, uri, f"set {_MLFLOW} to http://localhost:5000"):
        yield finding
    else:
        prepare()
        user = examined.environment.get(_MLFLOW_USER, "")
        yield ok(f"answers at {without_password(uri)}{f', as {user}' if user else ''}")


def object_store(examined: Examined) -> Iterator[Finding]:
    """The artifact store: can it be listed and written to?"""
    if not is_uri(examined.root):
        yield missing(f"{examined.root} cannot hold artifacts", "give gs://, s3:// or minio:// as the pipeline root")
        return
    endpoint = _endpoint(examined.scheme)
    if endpoint and (finding := _service_state(examined, endpoint, f"set {_ADDRESS} to http://localhost:9000")):
        yield _with_address_that_answers(examined, endpoint, finding)
        return
    at = f"{examined.root}{f' at {endpoint}' if endpoint else ''}"
    store = open_store(examined.root, _STORE_SECONDS)
    try:
        store.names()
        _write(store)
    except Unavailable as error:
        finding = missing(f"{at}: {error}", f"check that the store is running, and {_ADDRESS} of kfrec-config")
        yield _with_address_that_answers(examined, endpoint, finding) if endpoint else finding
        return
    except KfrecError as error:
        yield missing(f"{error}", f"this is the pipeline root, {LAUNCHER}: {ROOT}")
        return
    yield ok(f"{at}: can be listed and written to")
    yield from _folders(examined)
    launcher = examined.get(CONFIG_MAP, LAUNCHER)
    if examined.scheme == "s3" and launcher and not launcher.refused and "providers" not in (launcher.values or {}):
        yield note(
            f"{LAUNCHER} has no providers: KFP's launcher has no key of its own for s3://",
            "add the component launcher-s3, unless the pods have a role in IAM",
        )


def _folders(examined: Examined) -> Iterator[Finding]:
    """The other folders of buckets that the settings name."""
    for key in _FOLDERS:
        uri = examined.environment.get(key, "")
        if is_uri(uri):
            try:
                open_store(uri, _STORE_SECONDS).names()
            except (KfrecError, Unavailable) as error:
                yield missing(f"{key}: {error}", "correct it in the config map kfrec-config")


def _with_address_that_answers(examined: Examined, endpoint: str, finding: Finding) -> Finding:
    """The finding, and which of KFP's stores answers instead."""
    others = (url for url in _KFP_STORES if url != endpoint and finding.state == MISSING)
    answering = next((url for url in others if _answers(examined, url)), "")
    return missing(finding.message, f"{answering} answers: write it into {_ADDRESS}") if answering else finding


def _answers(examined: Examined, url: str) -> bool:
    """Whether a server is at an address: from here, or for the pods of the cluster."""
    if not _resolves(urlsplit(url).hostname or ""):
        found = _service_state(examined, url, "")
        return found is not None and found.state == NOTE
    try:
        requests.get(url, timeout=TIMEOUT)
    except requests.RequestException:
        return False
    return True


def _endpoint(scheme: str) -> str:
    """The store's custom endpoint; empty for the cloud's own."""
    if scheme not in ("s3", "minio"):
        return ""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return endpoint or (KFP_STORE if scheme == "minio" else "")


def _write(store: Store) -> None:
    """Writes a temporary object and removes it.

    Raises:
        KfrecError: writing or removing is not allowed.
        Unavailable: the store does not answer.
    """
    name = f".kfrec-doctor-{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text("written by kfrec doctor, which removes it\n")
        store.write(name, file)
    try:
        store.remove(name)
    except KfrecError as error:
        raise KfrecError(f"{error} (kfrec doctor leaves {store.url(name)} behind)") from None


def _service_state(examined: Examined, url: str, forward: str) -> Finding | None:
    """The state of the Kubernetes service behind an address that only the cluster's DNS resolves.

    Args:
        forward: how to reach it, after a port-forward.

    Returns:
        None if the name resolves here, or the service cannot be looked up.
    """
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # not an address; the request reports it
        return None
    if examined.kubernetes is None or not host or _resolves(host):
        return None
    name, namespace = [*host.split("."), ""][:2]
    space = namespace or examined.api.namespace
    try:
        if examined.api.object("services", name, space) is None:
            return missing(f"{url}: there is no service {name} in namespace {space}", "correct the address")
        slices = examined.api.get(
            f"/apis/discovery.k8s.io/v1/namespaces/{space}/endpointslices",
            labelSelector=f"kubernetes.io/service-name={name}",
        )
    except (Refused, KfrecError):
        return None
    endpoints = [endpoint for each in (slices or {}).get("items", ()) for endpoint in each.get("endpoints") or ()]
    # Kubernetes defines a missing condition as ready.
    ready = sum((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
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
