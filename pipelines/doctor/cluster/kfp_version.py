"""The version of KFP, from what its server and its installation tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from components.cluster.api import Refused
from components.errors import KfrecError
from pipelines.cluster.connection import version_in
from pipelines.doctor.cluster.examined import CONFIG_MAP, KFP_NAMESPACE, PLURALS, Examined

# The config map of KFP's manifests, and its key with the version.
INSTALL_CONFIG, _VERSION = "pipeline-install-config", "appVersion"
# The field of the health response that tells where pipelines are stored, and the first version that has it.
_FIELD, _SINCE = "pipeline_store", (2, 14)

Version = tuple[int, int]


def kfp_version(examined: Examined, health: Mapping[str, Any]) -> tuple[str, Version | None]:
    """The version for the user, and the oldest one that it can be; None if nothing tells.

    Images that are built without a tag report "unknown"; then KFP's config map has it, unless it may not be read.

    Args:
        examined: the installation.
        health: the API server's health response.
    """
    for tag in (str(health.get("tag_name", "")), *installed(examined, _VERSION)):
        if found := version_in({"tag_name": tag}):
            return tag, found
    if health.get(_FIELD):
        return f"{_SINCE[0]}.{_SINCE[1]} or newer", _SINCE
    return "unknown version", None


def installed(examined: Examined, key: str) -> Iterator[str]:
    """The values of a setting of KFP's installation, in the namespaces that KFP may be in."""
    if examined.kubernetes is None:
        return
    host = urlsplit(examined.endpoint).hostname or ""
    for namespace in dict.fromkeys([*host.split(".")[1:2], examined.api.namespace, KFP_NAMESPACE]):
        try:
            found = examined.api.object(PLURALS[CONFIG_MAP], INSTALL_CONFIG, namespace)
        except (Refused, KfrecError):
            continue
        yield str(((found or {}).get("data") or {}).get(key, ""))
