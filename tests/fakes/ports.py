"""Free ports for servers that tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A TCP port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
