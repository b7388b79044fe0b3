"""An http server that holds a few files and misbehaves on demand."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

import pytest

from tests.fakes.handler import serving


@dataclass(frozen=True)
class Fault:
    """The fault of one GET.

    Attributes:
        status: answer with this status and no file.
        drop_after: close the connection after so many bytes of the body.
        then: called once the fault has happened, for example to replace the file.
        headers: sent with ``status``.
    """

    status: int = 0
    drop_after: int | None = None
    then: Callable[[], None] = lambda: None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """One request and its response."""

    method: str
    path: str
    span: str
    status: int


class FileServer:
    """Serves ``files`` with ETag, Content-Length and Range, as object stores and web servers do.

    Attributes:
        files: path such as "/books/reviews_Books.json.gz" to content.
        headers: further headers by path.
        faults: by path, the faults of the next GETs, one each.
        ranges: whether Range is supported.
        lengths: whether Content-Length is sent.
        etags: whether an ETag is sent.
        head: whether HEAD is allowed.
        asked: every request so far.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.headers: dict[str, dict[str, str]] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.ranges = self.lengths = self.etags = self.head = True
        self.asked: list[Asked] = []
        self.url = ""

    def gets(self, path: str = "") -> list[Asked]:
        return [asked for asked in self.asked if asked.method == "GET" and asked.path.startswith(path)]

    @contextmanager
    def running(self) -> Iterator[FileServer]:
        with serving(_handler_of(self)) as self.url:
            yield self


def _handler_of(files: FileServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            if files.head:
                self._answer(with_body=False)
            else:
                self._refuse(405)

        def do_GET(self) -> None:
            faults = files.faults.get(self.path, [])
            fault = faults.pop(0) if faults else Fault()
            if fault.status:
                self._refuse(fault.status, fault.headers)
            else:
                self._answer(with_body=True, drop_after=fault.drop_after)
            fault.then()

        def _answer(self, with_body: bool, drop_after: int | None = None) -> None:
            body = files.files.get(self.path)
            if body is None:
                self._refuse(404)
                return
            etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"' if files.etags else ""
            start = self._start(etag)
            self._begin(206 if start else 200)
            if files.lengths:
                self.send_header("Content-Length", str(len(body) - start))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            if etag:
                self.send_header("ETag", etag)
            for name, value in files.headers.get(self.path, {}).items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body[start:][:drop_after])

        def _start(self, etag: str) -> int:
            match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            if not files.ranges or not match or self.headers.get("If-Range", etag) != etag:
                return 0
            return int(match.group(1))

        def _refuse(self, status: int, headers: dict[str, str] | None = None) -> None:
            self._begin(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def _begin(self, status: int) -> None:
            files.asked.append(Asked(self.command, self.path, self.headers.get("Range", ""), status))
            self.send_response(status)

        def log_message(self, format: str, *args: object) -> None:
            """Keeps the requests out of the test output; ``asked`` has them."""

    return Handler


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer().running() as server:
        yield server
