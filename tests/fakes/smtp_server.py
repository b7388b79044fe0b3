"""A mail server that takes mail, RFC 5321, with or without STARTTLS and AUTH PLAIN."""

from __future__ import annotations

import base64
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class MailServer:
    """A running server.

    Attributes:
        mails: what it took.
        logins: users and passwords that were given.
    """

    port: int = 0
    mails: list[str] = field(default_factory=list)
    logins: list[str] = field(default_factory=list)


@contextmanager
def mail_server(certificate: Path | None = None) -> Iterator[MailServer]:
    """Serves for the block; with a certificate it offers STARTTLS, and AUTH after it."""
    held = MailServer()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            is_private = False
            self.say("220 ready")
            while line := self.rfile.readline().decode().strip():
                verb = line.split()[0].upper()
                if verb == "EHLO":
                    offers = (["AUTH PLAIN"] if is_private else ["STARTTLS"]) if certificate else []
                    self.say("250-here")
                    for offer in offers:
                        self.say(f"250-{offer}")
                    self.say("250 8BITMIME")
                elif verb == "STARTTLS" and certificate:
                    self.say("220 go")
                    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    tls.load_cert_chain(certificate, certificate.with_suffix(".key"))
                    self.request = tls.wrap_socket(self.request, server_side=True)
                    self.rfile, self.wfile = self.request.makefile("rb"), self.request.makefile("wb", 0)
                    is_private = True
                elif verb == "AUTH":
                    held.logins.append(base64.b64decode(line.split()[2]).decode().strip("\0").replace("\0", ":"))
                    self.say("235 welcome")
                elif verb == "DATA":
                    self.say("354 go on")
                    lines = []
                    while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                        lines.append(text)
                    held.mails.append("\n".join(lines))
                    self.say("250 taken")
                elif verb == "QUIT":
                    self.say("221 bye")
                    return
                else:
                    self.say("250 fine")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        held.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield held
        finally:
            server.shutdown()
