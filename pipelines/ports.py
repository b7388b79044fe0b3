"""Ports of this machine."""

from __future__ import annotations

import socket

from components.errors import KfrecError

# The default ports of kfrec ui and kfrec serve.
UI_PORT, SERVE_PORT = 5000, 5001


def require_free(port: int, *, free: bool = True) -> None:
    """Checks that a server can listen on a port.

    Args:
        port: of a command.
        free: whether it must be unused, too.

    Raises:
        KfrecError: it cannot.
    """
    if not 1 <= port <= 65_535:
        raise KfrecError(f"--port {port} is not a valid port; give one from 1 to 65535")
    if not free:
        return
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
