"""Blocked addresses: a cloud's metadata service, which gives credentials to every client."""

from __future__ import annotations

import ipaddress
import os
import socket
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter

from components.errors import KfrecError

_METADATA_NAMES = {"metadata", "metadata.google.internal"}
_METADATA_ADDRESSES = {"fd00:ec2::254", "100.100.100.200", "168.63.129.16"}
# Kubernetes sets it in every container.
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


def require_no_metadata(place: str, host: str) -> None:
    """Refuses link-local addresses (169.254.0.0/16, fe80::/10) and the metadata services of clouds.

    Args:
        place: the user's input, for the message.
        host: name or address to connect to.

    Raises:
        KfrecError: it is one of them.
    """
    named = host.strip("[]").rstrip(".").lower()
    try:
        address: Any = ipaddress.ip_address(named.partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        forbidden = address.is_link_local or str(address) in _METADATA_ADDRESSES
    except ValueError:
        forbidden = named in _METADATA_NAMES
    if forbidden:
        raise KfrecError(
            f"{place}: {host} is a link-local or metadata address, which is never a source of data; name another source"
        )


def require_no_file_uri(uri: str) -> None:
    """Refuses file:// in a pod: the user's data there are on mounted volumes, which have plain paths.

    Raises:
        KfrecError: it is such a URI, in a cluster.
    """
    if uri.startswith("file://") and os.environ.get(_IN_CLUSTER):
        raise KfrecError(
            f"{uri}: file:// is not read on a cluster, whose pods do not share this machine's files; use http(s)://, "
            "gs://, s3:// or minio://"
        )


def session() -> requests.Session:
    """A session that connects to no metadata service, not even by a redirect or a host name."""
    made = requests.Session()
    made.mount("http://", _Adapter())
    made.mount("https://", _Adapter())
    return made


class _Http(urllib3.connection.HTTPConnection):
    def _new_conn(self) -> socket.socket:
        return _checked(super()._new_conn, self.host)


class _Https(urllib3.connection.HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        return _checked(super()._new_conn, self.host)


def _checked(connect: Any, host: str) -> socket.socket:
    require_no_metadata(host, host)
    made: socket.socket = connect()
    try:
        require_no_metadata(host, str(made.getpeername()[0]))  # the address that the name resolved to
    except KfrecError:
        made.close()
        raise
    return made


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


class _Adapter(HTTPAdapter):
    def init_poolmanager(self, *given: Any, **options: Any) -> None:
        super().init_poolmanager(*given, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
