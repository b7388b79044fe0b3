"""The process that workers on this machine are forked from: one pays the seconds of imports for all."""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from multiprocessing import forkserver


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def start() -> None:
    """Starts it, unless it runs; its imports go on while this process does other work."""
    forkserver.set_forkserver_preload(["distributed", "components.workflows.nvtabular_quiet"])
    forkserver.ensure_running()


def start_early(workers: int, scheduler: str) -> None:
    """Starts it if these parameters of the step will need it: not beside a scheduler, nor where a GPU may be in use."""
    if not scheduler and (workers or cores()) > 1 and find_spec("cudf") is None:
        start()
