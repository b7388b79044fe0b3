"""The fork server of the workers on this machine: it imports once for all of them."""

from __future__ import annotations

import os
from functools import cache
from multiprocessing import forkserver


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def start() -> None:
    """Starts the fork server, unless it runs; it imports in the background."""
    forkserver.set_forkserver_preload(["components.workflows.nvtabular_quiet", "distributed"])
    forkserver.ensure_running()


def start_early(workers: int, scheduler: str) -> None:
    """Starts the fork server if the step will need it."""
    if not scheduler and (workers or cores()) > 1:
        start()
