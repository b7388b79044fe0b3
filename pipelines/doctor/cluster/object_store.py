"""The artifact store: can it be listed and written to?"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from components.errors import KfrecError
from components.storage import Store, Unavailable, is_uri, open_store
from components.storage.s3 import KFP_STORE
from pipelines.doctor.cluster.place import CONFIG_MAP, LAUNCHER, Place
from pipelines.doctor.cluster.services import service_state
from pipelines.doctor.finding import Finding, missing, note, ok

_SECONDS = 15.0
_FORWARD = "set AWS_ENDPOINT_URL to http://localhost:9000"
_BOTO_WORDS = {"s3", "minio"}


def check(place: Place) -> Iterator[Finding]:
    scheme = place.scheme
    if not is_uri(place.root):
        yield missing(f"{place.root} cannot hold artifacts", "give gs://, s3:// or minio:// as the pipeline root")
        return
    endpoint = _endpoint(scheme)
    if endpoint and (finding := service_state(place, endpoint, _FORWARD)) is not None:
        yield finding
        return
    at = f"{place.root}{f' at {endpoint}' if endpoint else ''}"
    store = open_store(place.root, _SECONDS)
    try:
        store.names()
        _write(store)
    except Unavailable as error:
        yield missing(f"{at}: {error}", "check that the store is running, and its address")
        return
    yield ok(f"{at}: can be listed and written to")
    launcher = place.get(CONFIG_MAP, LAUNCHER)
    if scheme == "s3" and launcher is not None and not launcher.refused and "providers" not in (launcher.values or {}):
        yield note(
            f"{LAUNCHER} has no providers: KFP's launcher has no key of its own for s3://",
            "add the component launcher-s3, unless the pods have a role in IAM",
        )


def _endpoint(scheme: str) -> str:
    """The store's custom endpoint; empty for the cloud's own."""
    if scheme not in _BOTO_WORDS:
        return ""
    given = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    return given or (KFP_STORE if scheme == "minio" else "")


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
