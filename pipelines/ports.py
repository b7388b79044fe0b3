"""Ports of this machine."""

from __future__ import annotations

import socket

from components.errors import KfrecError

# The default port of kfrec ui.
UI_PORT = 5000


def require_free(port: int) -> None:
    """Checks that a server can listen on a port.

    Raises:
        KfrecError: it cannot.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise KfrecError(f"--port {port} cannot be used ({error.strerror}); give another one") from None


def free_port() -> int:
    """An unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
