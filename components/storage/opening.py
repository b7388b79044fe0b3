"""Opens the storage of a URI. A client library is imported only when its scheme is used."""

from __future__ import annotations

import importlib
from urllib.parse import urlsplit

from components.errors import KfrecError
from components.secrets import without_password
from components.storage.store import Store

_BACK_ENDS = {
    "": ("components.storage.folder", "FolderStore"),
    "file": ("components.storage.folder", "FolderStore"),
    "http": ("components.storage.http", "HttpStore"),
    "https": ("components.storage.http", "HttpStore"),
    "gs": ("components.storage.gcs", "GcsStore"),
    "s3": ("components.storage.s3", "S3Store"),
    "minio": ("components.storage.s3", "S3Store"),
}


def open_store(uri: str, timeout: float = 60.0) -> Store:
    """Opens the folder, URL prefix or bucket prefix ``uri``.

    Args:
        uri: a folder's path, file://, http(s)://, gs://bucket/prefix, s3://bucket/prefix
            or minio://bucket/prefix.
        timeout: longest silence of a server, in seconds.

    Raises:
        KfrecError: an unknown scheme, a missing client library, a folder that does not exist, or credentials that
            the scheme does not have.
    """
    try:
        scheme = urlsplit(uri).scheme if "://" in uri else ""
    except ValueError as error:
        raise KfrecError(f"{without_password(uri)}: is not a valid URI ({error}); correct it") from None
    if scheme not in _BACK_ENDS:
        raise KfrecError(
            f"{without_password(uri)}: cannot read {scheme}:// ; use a folder, http(s)://, gs://, s3:// or minio://"
        )
    _require_plain(uri, scheme)
    module, name = _BACK_ENDS[scheme]
    try:
        store: type[Store] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        extra = module.rpartition(".")[2]
        raise KfrecError(
            f"{uri}: reading {scheme}:// needs the package {error.name}; install kfrec with the extra {extra}"
        ) from None
    return store(uri, timeout)  # type: ignore[call-arg]


def _require_plain(uri: str, scheme: str) -> None:
    """Refuses credentials that client libraries take for a host or a bucket, and quote in their messages.

    It also refuses a bucket's prefix that continues after a ``?``.

    Raises:
        KfrecError: there is one of them.
    """
    address, _, settings = uri.partition("?")
    if scheme in ("http", "https"):
        try:
            _ = urlsplit(uri).port
        except ValueError:
            raise KfrecError(f"{uri}: has no host; write / in a user or a password as %2F") from None
    elif scheme in ("gs", "s3", "minio") and without_password(address) != address:
        raise KfrecError(
            f"{uri}: has a key before the bucket; give it by the environment, as the client of {scheme}:// reads it"
        )
    elif scheme in ("gs", "s3", "minio") and settings and not all("=" in each for each in settings.split("&")):
        raise KfrecError(
            f"{uri}: what follows ? are settings, such as ?region=eu-west-1; name a prefix without ?, or move the "
            "objects to one"
        )


def is_uri(location: str) -> bool:
    """Whether ``location`` is in object storage, rather than a folder of this machine."""
    return "://" in location and not location.startswith("file://")


def require_folder(option: str, location: str) -> None:
    """Refuses a URI where only a folder of this machine can be; a path would be made of it, such as ``./gs:/bucket``.

    Raises:
        KfrecError: it is a URI.
    """
    if "://" in location:
        raise KfrecError(f"{option} {without_password(location)} is a URI; name a folder of this machine")


def below(uri: str, *names: str) -> str:
    """The URI of something below ``uri``; settings that KFP appended to it (``?region=...``) stay at the end."""
    location, mark, settings = uri.partition("?") if is_uri(uri) else (uri, "", "")
    return "/".join((location.rstrip("/"), *names)) + mark + settings


def bucket_and_prefix(uri: str) -> tuple[str, str]:
    """Splits gs://bucket/some/prefix into ("bucket", "some/prefix/"); the prefix is empty or ends with a slash.

    Names of objects may hold a ``#``, which begins no fragment here.

    Raises:
        KfrecError: the URI names no bucket.
    """
    scheme, _, location = uri.partition("?")[0].partition("://")
    bucket, _, prefix = location.partition("/")
    if not bucket:
        raise KfrecError(f"{uri}: names no bucket; write {scheme}://bucket/prefix")
    prefix = prefix.strip("/")
    return bucket, f"{prefix}/" if prefix else ""
