"""What a step starts in the background before it needs it: imports, and the fork server of its workers."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from importlib import import_module
from multiprocessing import forkserver
from threading import Thread

from components.temporary import make_socket_folder


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def start_fork_server() -> None:
    """Starts the fork server, unless it runs; it imports in the background."""
    forkserver.set_forkserver_preload(["components.workflows.nvtabular_quiet", "distributed"])
    make_socket_folder()
    forkserver.ensure_running()


def start_fork_server_early(workers: int, scheduler: str) -> None:
    """Starts the fork server if the step will need it."""
    if not scheduler and (workers or cores()) > 1:
        start_fork_server()


def import_ahead(module: str) -> None:
    """Begins to import a module; an import statement waits for its end and raises its error.

    A step that is stopped does not wait for it, since the end of a run leaves half a second to delete a cluster.
    """
    Thread(target=_import, args=(module,), name="import-ahead", daemon=True).start()


def _import(module: str) -> None:
    with suppress(Exception):  # which the import statement raises again
        import_module(module)
