"""How the ranks of one machine find each other: by Gloo's rendezvous server, or by the MPI of the Python environment.

The server does what horovodrun does, without its shell: horovodrun writes the whole environment, passwords included,
into the arguments of a shell, which every user of the machine can read; it imports TensorFlow first, and its server
listens on every address. Here each rank inherits its environment, and the server listens on the loopback address.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import KfrecError

# Horovod links against it, but it is in the Python environment, outside the loader's search path.
LIBRARY = "libmpi.so.40"
_HOST = "localhost"
_LOOPBACK, _INTERFACE = "127.0.0.1", "lo"
_SECONDS = 2.0


@contextmanager
def ranks_of_this_machine(size: int) -> Iterator[list[dict[str, str]]]:
    """The environment variables of each rank, while the server runs at which they find one another.

    Raises:
        KfrecError: the loopback interface is down.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    if problem := loopback_problem():
        raise KfrecError("; ".join(problem))
    server = RendezvousHTTPServer((_LOOPBACK, 0), RendezvousHandler, 0)
    slots = get_host_assignments(parse_hosts(f"{_HOST}:{size}"), size)
    server.init(slots)
    thread = threading.Thread(target=server.serve_forever, name="rendezvous", daemon=True)
    thread.start()
    try:
        yield [
            {
                "HOROVOD_CONTROLLER": "gloo",
                "HOROVOD_CPU_OPERATIONS": "gloo",
                "HOROVOD_GLOO_IFACE": _INTERFACE,
                "HOROVOD_GLOO_RENDEZVOUS_ADDR": _LOOPBACK,
                "HOROVOD_GLOO_RENDEZVOUS_PORT": str(server.server_address[1]),
                "NCCL_SOCKET_IFNAME": _INTERFACE,
                "HOROVOD_HOSTNAME": slot.hostname,
                "HOROVOD_RANK": str(slot.rank),
                "HOROVOD_SIZE": str(slot.size),
                "HOROVOD_LOCAL_RANK": str(slot.local_rank),
                "HOROVOD_LOCAL_SIZE": str(slot.local_size),
                "HOROVOD_CROSS_RANK": str(slot.cross_rank),
                "HOROVOD_CROSS_SIZE": str(slot.cross_size),
            }
            for slot in slots
        ]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def loopback_problem() -> tuple[str, str] | None:
    """Why the ranks of one machine cannot communicate, and the remedy; None if they can.

    An address of an interface that is down can be listened at, and not be reached.
    """
    with socket.create_server((_LOOPBACK, 0)) as server, socket.socket() as client:
        client.settimeout(_SECONDS)
        if client.connect_ex(server.getsockname()):
            return (
                f"{_LOOPBACK} cannot be reached, so a training cannot have several workers",
                f"ip link set {_INTERFACE} up",
            )
    return None


def make_mpi_loadable() -> None:
    """Loads the environment's libmpi before Horovod is imported. Does nothing if there is none."""
    library = Path(sys.prefix) / "lib" / LIBRARY
    if library.is_file():
        os.environ.setdefault("OPAL_PREFIX", sys.prefix)
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def mpi_environment(prefix: str = sys.prefix) -> dict[str, str]:
    """Variables that point mpirun and its processes to the environment's MPI; empty if there is none."""
    libraries = Path(prefix) / "lib"
    if not (libraries / LIBRARY).is_file():
        return {}
    earlier = os.environ.get("LD_LIBRARY_PATH", "")
    paths = [str(libraries)] + [path for path in earlier.split(":") if path and path != str(libraries)]
    # mpirun wants a remote shell to exist even for ranks of this machine alone, which need none.
    shell = {} if shutil.which("ssh") or shutil.which("rsh") else {"OMPI_MCA_plm_rsh_agent": "sh"}
    return {"OPAL_PREFIX": prefix, "LD_LIBRARY_PATH": ":".join(paths), **shell}
