"""Blocked addresses: a cloud's metadata service, which gives credentials to every client."""

from __future__ import annotations

import ipaddress
import os
import socket
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from components.errors import KfrecError

_METADATA_NAMES = {"metadata", "metadata.google.internal"}
# Of AWS, of its agent in EKS, of Google, Alibaba and Azure, where it is no link-local address.
_METADATA_ADDRESSES = {"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200", "168.63.129.16"}
# Kubernetes sets it in every container.
_IN_CLUSTER = "KUBERNETES_SERVICE_HOST"


def require_no_metadata(source: str, host: str) -> None:
    """Refuses link-local addresses (169.254.0.0/16, fe80::/10) and the metadata services of clouds.

    Args:
        source: the user's input, for the message.
        host: name or address to connect to.

    Raises:
        KfrecError: it is one of them.
    """
    named = host.strip("[]").rstrip(".").lower()
    try:
        with suppress(OSError):  # another spelling of an IPv4 address, such as 2852039166
            named = str(ipaddress.IPv4Address(socket.inet_aton(named)))
        address: Any = ipaddress.ip_address(named.partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        forbidden = address.is_link_local or str(address) in _METADATA_ADDRESSES
    except ValueError:
        forbidden = named in _METADATA_NAMES
    if forbidden:
        raise KfrecError(
            f"{source}: {host} is a link-local or metadata address, which is never a source of data; name another "
            "source"
        )


def require_no_metadata_behind(source: str, host: str) -> None:
    """``require_no_metadata`` of a host, and of the addresses that its name has now.

    Raises:
        KfrecError: it is one of them.
    """
    require_no_metadata(source, host)
    with suppress(OSError):  # a name that only the proxy knows
        for *_, address in socket.getaddrinfo(host, None):
            require_no_metadata(source, str(address[0]))


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
    """A session that asks no metadata service, not even by a redirect or a host name."""
    made = requests.Session()
    made.mount("http://", _Adapter())
    made.mount("https://", _Adapter())
    return made


class _Connection(HTTPConnection):
    """Checks the address that it is connected to, which a second look-up of the name may have changed."""

    def connect(self) -> None:
        super().connect()
        _require_peer(self)


class _TlsConnection(HTTPSConnection):
    """The same, over TLS."""

    def connect(self) -> None:
        super().connect()
        _require_peer(self)


def _require_peer(connection: HTTPConnection) -> None:
    try:
        require_no_metadata(connection.host, str(connection.sock.getpeername()[0]))
    except KfrecError:
        connection.close()
        raise


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    """Checks every request; redirects are requests, too."""

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        super().init_poolmanager(*args, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _TlsPool}

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        host = urlsplit(str(request.url)).hostname or ""
        require_no_metadata_behind(host, host)
        return super().send(request, *args, **options)
