"""The addresses that several workers of one machine listen at."""

from __future__ import annotations

import socket
from contextlib import suppress

_SECONDS = 2.0


def name_problem() -> tuple[str, str] | None:
    """Why several workers cannot listen here, and the remedy; None if they can.

    Horovod's launcher takes a localhost that is no address of an interface for another machine and connects by SSH
    (horovod/runner/util/network.py). Gloo crashes if it can listen at no address of the host's name
    (gloo/transport/tcp/device.cc).
    """
    name = socket.gethostname()
    if not _can_listen("localhost", socket.AF_INET):
        return (
            "localhost is no address of this machine, so a training cannot have several workers",
            "ip link set lo up, and 127.0.0.1 localhost in /etc/hosts",
        )
    if not _can_listen(name):
        return (
            f"{name} resolves to no address of this machine, so a training cannot have several workers",
            f"add the line 127.0.0.1 {name} to /etc/hosts, or use --set transport=mpi",
        )
    return None


def _can_listen(name: str, family: int = socket.AF_UNSPEC) -> bool:
    """Whether a process here can listen at one of a name's addresses, and be reached there.

    An address of an interface that is down can be listened at, and not be reached.
    """
    with suppress(OSError, UnicodeError):
        for kind, _, _, _, address in socket.getaddrinfo(name, None, family, socket.SOCK_STREAM):
            with suppress(OSError), socket.socket(kind) as server, socket.socket(kind) as client:
                server.bind(address)
                server.listen(1)
                client.settimeout(_SECONDS)
                client.connect(server.getsockname())
                return True
    return False
