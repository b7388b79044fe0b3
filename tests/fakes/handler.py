"""The common base of the fakes' HTTP handlers."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler
from typing import Any


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
