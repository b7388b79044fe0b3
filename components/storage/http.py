"""Files below an http(s):// prefix."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import quote, unquote, urlsplit, urlunsplit

import requests
import urllib3

from components.errors import KfrecError, certificate_problem
from components.secrets import HIDDEN, without_password
from components.storage.blocked import session
from components.storage.store import BLOCK, Changed, Checksum, ObjectInfo, Store, Unavailable

_RETRIED = {408, 425, 429, 500, 502, 503, 504}
_NO_HEAD = {400, 403, 405, 501}
# Compression on the fly would change the bytes and leave no length to verify.
_AS_STORED = {"Accept-Encoding": "identity"}


class HttpStore(Store):
    """Reads with GET and continues with Range.

    A read that continues is conditional (If-Range): a file that was replaced in between raises
    ``components.storage.store.Changed`` instead of being spliced. Bodies are never decoded, so that a .gz file
    stays one even where the server calls it "Content-Encoding: gzip".
    """

    def __init__(self, uri: str, timeout: float = 60.0) -> None:
        parts = urlsplit(uri)
        # Messages and manifests get the URL without the account.
        url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        super().__init__(without_password(url))
        self._url = url
        self.timeout = timeout
        self.session = session()
        # Run records redact the password: then ~/.netrc supplies it.
        if parts.password is not None and parts.password != HIDDEN:
            self.session.auth = unquote(parts.username or ""), unquote(parts.password)

    def names(self) -> None:
        return None

    def url(self, name: str) -> str:
        return _below(self.uri, name)

    def stat(self, name: str) -> ObjectInfo:
        with self._asking("HEAD", name, {}) as response:
            if response.status_code not in _NO_HEAD:
                return _described(name, response)
        with self._asking("GET", name, {}) as response:
            return _described(name, response)

    def read(self, info: ObjectInfo, offset: int = 0) -> Iterator[bytes]:
        headers = {"Range": f"bytes={offset}-"} if offset else {}
        # Only a strong validator may guard a range (RFC 9110, 13.1.5).
        if offset and info.version and not info.version.startswith("W/"):
            headers["If-Range"] = info.version
        with self._asking("GET", info.name, headers) as response:
            if response.status_code == 416 or (info.version and _version(response) not in ("", info.version)):
                raise Changed(f"{self.url(info.name)} was replaced")
            partial = response.status_code == 206
            if partial and _start_of_range(response) != offset:
                raise Unavailable("the server sent another range than the one asked for")
            unwanted = 0 if partial else offset
            for block in _blocks(response):
                if unwanted < len(block):
                    yield block[unwanted:]
                unwanted = max(0, unwanted - len(block))

    @contextmanager
    def _asking(self, method: str, name: str, headers: dict[str, str]) -> Iterator[requests.Response]:
        url = self.url(name)
        try:
            response = self.session.request(
                method,
                _below(self._url, name),
                headers=_AS_STORED | headers,
                timeout=self.timeout,
                stream=True,
                allow_redirects=True,
            )
        except (requests.ConnectionError, requests.Timeout) as error:
            if problem := certificate_problem(error):
                raise KfrecError(f"{url}: {problem}") from error
            raise Unavailable(_reason(error, self.timeout)) from error
        except requests.RequestException as error:
            raise KfrecError(f"{url}: {without_password(str(error))}; check the source") from error
        with response:
            _check_status(method, url, response)
            yield response


def _below(url: str, name: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"{parts.path.rstrip('/')}/{quote(name)}"))


def _check_status(method: str, url: str, response: requests.Response) -> None:
    status = response.status_code
    if status < 400 or status == 416 or (method == "HEAD" and status in _NO_HEAD):
        return
    answer = f"{status} {response.reason}".strip()
    if status in _RETRIED:
        raise Unavailable(f"the server answered {answer}", _retry_after(response))
    if status in (404, 410):
        raise KfrecError(f"{url}: not there ({answer}); check the source and the names of the files")
    if status in (401, 403):
        raise KfrecError(f"{url}: access denied ({answer}); check the permissions, or use a source you may read")
    raise KfrecError(f"{url}: the server answered {answer}; check the source")


def _blocks(response: requests.Response) -> Iterator[bytes]:
    """The body as it was sent. urllib3 raises when fewer bytes than Content-Length arrive."""
    try:
        yield from response.raw.stream(BLOCK, decode_content=False)
    except urllib3.exceptions.ReadTimeoutError as error:
        raise Unavailable("the server fell silent") from error
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise Unavailable("the connection broke off") from error


def _described(name: str, response: requests.Response) -> ObjectInfo:
    length = response.headers.get("Content-Length")
    return ObjectInfo(name, int(length) if length else None, _version(response), _checksum(response))


def _version(response: requests.Response) -> str:
    etag = response.headers.get("ETag", "")
    modified = response.headers.get("Last-Modified", "")
    return modified if modified and (not etag or etag.startswith("W/")) else etag


def _checksum(response: requests.Response) -> Checksum | None:
    """x-goog-hash (``crc32c=...,md5=...``), else Content-MD5."""
    hashes = dict(
        part.strip().split("=", 1) for part in response.headers.get("x-goog-hash", "").split(",") if "=" in part
    )
    if "crc32c" in hashes:
        return Checksum("crc32c", hashes["crc32c"])
    md5 = hashes.get("md5") or response.headers.get("Content-MD5")
    return Checksum("md5", md5) if md5 else None


def _start_of_range(response: requests.Response) -> int:
    match = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(match.group(1)) if match else -1


def _retry_after(response: requests.Response) -> float:
    text = response.headers.get("Retry-After", "")
    if text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0


def _reason(error: Exception, timeout: float) -> str:
    return f"no answer within {timeout:g} seconds" if isinstance(error, requests.Timeout) else "could not connect"
