"""The MLflow server: availability, authentication and version."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.metadata import version

import requests

from components.secrets import without_password
from components.tracking.store import prepare
from pipelines.doctor.cluster.api import TIMEOUT
from pipelines.doctor.cluster.place import Place
from pipelines.doctor.cluster.services import service_state
from pipelines.doctor.finding import Finding, missing, note, ok

_URI, _USER, _PASSWORD, _TOKEN = (
    f"MLFLOW_TRACKING_{name}" for name in ("URI", "USERNAME", "PASSWORD", "TOKEN")
)  # fmt: skip
_FORWARD = f"set {_URI} to http://localhost:5000"


def check(place: Place) -> Iterator[Finding]:
    uri = place.environment.get(_URI, "").strip()
    if not uri:
        yield missing(f"{_URI} is not set", "set it in the config map kfrec-config")
        return
    if not uri.startswith(("http://", "https://")):
        yield missing(f"{_URI} is {without_password(uri)}", "name an MLflow server: steps of a cluster share no disk")
        return
    if (finding := service_state(place, uri, _FORWARD)) is not None:
        yield finding
        return
    prepare()
    user = place.environment.get(_USER, "")
    account = f"as {user}" if user else "with a token" if place.environment.get(_TOKEN) else "without an account"
    server, own = _version(uri), version("mlflow")
    found = f"{server or 'unknown version'} at {without_password(uri)}, {account}"
    if server and server.split(".")[0] != own.split(".")[0]:
        yield note(f"{found}; the steps' MLflow is {own}", "run the same major version on both sides")
    elif not user and not place.environment.get(_TOKEN):
        yield note(f"{found}: it has no authentication", "start the server with --app-name basic-auth")
    else:
        yield ok(found)


def _version(uri: str) -> str:
    """The version that the server reports; empty if it reports none."""
    token, user = os.environ.get(_TOKEN, ""), os.environ.get(_USER, "")
    headers = {"Authorization": f"Bearer {token}"} if token and not user else {}
    account = (user, os.environ.get(_PASSWORD, "")) if user else None
    try:
        answer = requests.get(f"{uri.rstrip('/')}/version", headers=headers, auth=account, timeout=TIMEOUT)
    except requests.RequestException:
        return ""
    text = answer.text.strip()
    return text if answer.ok and text[:1].isdigit() and len(text) < 30 else ""
