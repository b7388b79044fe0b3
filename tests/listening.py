"""The addresses on which processes accept connections."""

from __future__ import annotations

import psutil


def listening_sockets(process: psutil.Process) -> set[tuple[str, int]]:
    """Address and port of the listening TCP sockets of a process and of all below it."""
    found = set()
    for each in [process, *process.children(recursive=True)]:
        try:
            found |= {
                (socket.laddr.ip, socket.laddr.port)
                for socket in each.net_connections("tcp")
                if socket.status == psutil.CONN_LISTEN
            }
        except psutil.NoSuchProcess:
            continue
    return found
