"""A proxy in front of an emulator of object storage that answers as a service, or the network to it, does on a bad day.

Each request meets every fault once before it is answered, so that every kind of request that a client makes has failed
in every way.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.fakes.handler import QuietHandler, serving
from tests.waiting import LONGEST

# Status codes with what a service says beside them.
BUSY = ("429", "500", "503")
# What happens to the connection or to the bytes.
REFUSED, LOST, CUT, SLOW, SILENT, FLIPPED = "refused", "lost", "cut", "slow", "silent", "flipped"
DENIED, MISSING = "403", "404"
_NOT_FORWARDED = {"host", "connection", "expect", "transfer-encoding", "content-length", "keep-alive"}
_PIECES, _PAUSE_SECONDS = 8, 0.02


class FaultyStorage:
    """Forwards to ``upstream``, but for the requests that are to fail.

    Attributes:
        url: the proxy's address.
        faults: status codes and the words above; each request meets them in this order.
        lasts: whether the last fault goes on for ever.
        wanted: which requests may fail, by method and path.
        before: called before the first request of each kind is forwarded, with its method and path.
        failed: how many requests have failed.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = urlsplit(upstream).netloc
        self.url = ""
        self.faults: tuple[str, ...] = ()
        self.lasts = False
        self.wanted: Callable[[str, str], bool] = lambda method, path: True
        self.before: Callable[[str, str], None] = lambda method, path: None
        self.failed = 0
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._lock = threading.Lock()
        self.ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[FaultyStorage]:
        """Serves while the block runs."""
        proxy = self

        class Handler(QuietHandler):
            def answer(self) -> None:
                proxy.answer(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = answer

        with serving(Handler) as self.url:
            try:
                yield self
            finally:
                self.ended.set()

    def answer(self, handler: QuietHandler) -> None:
        """Answers one request."""
        body = handler.body()
        method, path = handler.command, handler.path
        fault = self._fault_of(method, path, handler.headers.get("Range", ""))
        if fault.isdigit():
            said = f"<Error><Code>{fault}</Code><Message>on purpose</Message></Error>".encode()
            self._send(handler, int(fault), [("Content-Type", "application/xml")], said)
            return
        if fault == SILENT:
            self.ended.wait(LONGEST)
        if fault in (REFUSED, SILENT):
            _reset(handler)
            return
        self.before(method, path)
        status, headers, content = self._forward(handler, body)
        if fault == LOST or (fault == CUT and len(content) < 2):
            _reset(handler)
        elif fault == CUT:
            self._send(handler, status, headers, content, stop_at=len(content) // 2)
            _reset(handler)
        elif fault == FLIPPED and content:
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
            self._send(handler, status, headers, content)
        else:
            self._send(handler, status, headers, content, slowly=fault == SLOW)

    def _fault_of(self, *request: str) -> str:
        method, path, _ = request
        if not self.faults or not self.wanted(method, path):
            return ""
        with self._lock:
            turn = self._seen[request]
            if turn >= len(self.faults) and not self.lasts:
                return ""
            self._seen[request] += 1
            self.failed += 1
        return self.faults[min(turn, len(self.faults) - 1)]

    def _forward(self, handler: QuietHandler, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._upstream, timeout=LONGEST)
        try:
            given = {n: v for n, v in handler.headers.items() if n.lower() not in _NOT_FORWARDED}
            given |= {"Content-Length": str(len(body))} if body or handler.command in ("PUT", "POST") else {}
            connection.request(handler.command, handler.path, body or None, given)
            answer = connection.getresponse()
            content = answer.read()
            headers = [(n, v) for n, v in answer.getheaders() if n.lower() not in _NOT_FORWARDED]
            if handler.command == "HEAD" and (length := answer.getheader("Content-Length")):
                headers.append(("Content-Length", length))
            # Where an upload goes on is told as an address.
            own = self.url.removeprefix("http://")
            return answer.status, [(n, v.replace(self._upstream, own)) for n, v in headers], content
        finally:
            connection.close()

    def _send(
        self,
        handler: QuietHandler,
        status: int,
        headers: list[tuple[str, str]],
        content: bytes,
        *,
        stop_at: int | None = None,
        slowly: bool = False,
    ) -> None:
        handler.send_response(status)
        for name, value in headers:
            handler.send_header(name, value)
        if "content-length" not in {name.lower() for name, _ in headers} and status not in (204, 304):
            handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        if handler.command == "HEAD":
            return
        content = content[:stop_at]
        step = max(1, -(-len(content) // _PIECES)) if slowly else max(1, len(content))
        for start in range(0, len(content), step):
            handler.wfile.write(content[start : start + step])
            handler.wfile.flush()
            if slowly:
                self.ended.wait(_PAUSE_SECONDS)


def _reset(handler: QuietHandler) -> None:
    """Ends the connection at once, with RST."""
    handler.wfile.flush()
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True
