"""HTTP servers of fakes: the base of their handlers, and how they run."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit


class QuietHandler(BaseHTTPRequestHandler):
    """Keeps connections alive, logs nothing, and treats a lost client as the end of its connection."""

    protocol_version = "HTTP/1.1"
    # Head and body leave as two packets; the second would wait 40 ms for the client's acknowledgement of the first.
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def asked(self) -> tuple[str, dict[str, str]]:
        """The request's path, and the first value of each word of its query."""
        parts = urlsplit(self.path)
        return parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()}

    def body(self) -> bytes:
        """The request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int, body: bytes, **headers: str) -> None:
        """Sends a whole response; a header's name is a keyword with _ for -."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def reply_json(self, status: int, body: Any) -> None:
        self.reply(status, json.dumps(body).encode(), Content_Type="application/json")

    def cut(self) -> None:
        """Closes the connection without a response, or within one."""
        self.close_connection = True
        self.connection.close()


def free_port() -> int:
    """An unused port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], address: str = "127.0.0.1", port: int = 0, certificate: Path | None = None
) -> Iterator[str]:
    """Serves while the block runs, at the URL it yields; port 0 is an unused one.

    Args:
        handler: of each connection.
        address: to listen at.
        port: to listen at.
        certificate: for TLS, with its key beside it (.key); None is no TLS.
    """
    with ThreadingHTTPServer((address, port), handler) as server:
        if certificate is not None:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield f"{'http' if certificate is None else 'https'}://{address}:{server.server_port}"
        finally:
            server.shutdown()


def answering(status: int, body: str, **headers: str) -> AbstractContextManager[str]:
    """A server that gives every request the same answer."""

    class Handler(QuietHandler):
        def answer(self) -> None:
            self.body()
            self.reply(status, body.encode(), **headers)

        do_GET = do_POST = do_DELETE = do_PUT = do_PATCH = do_HEAD = answer

    return serving(Handler)
