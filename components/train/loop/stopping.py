"""How a training ends early: by a request that keeps its best epoch, or because a rank's step takes too long.

The request is a file among the training's checkpoints, which ``kfrec stop`` writes. The first rank looks for it
whenever it reads the losses, and all ranks end the epoch at that step. Of a training in object storage, the thread that
uploads the checkpoints looks for it there.

MPI and NCCL wait for a rank that hangs without a limit, so a rank whose step takes too long ends itself.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from components.artifacts.remote import write_remote
from components.progress import emit
from components.storage import is_uri

STOP = "stop"
T = TypeVar("T")
STALLED = 5
"""Exit status of a rank whose step took too long."""
_LONGEST_POLL_SECONDS = 10.0


def request_stop(checkpoints: str) -> None:
    """Asks the training that writes its checkpoints to this folder or URI to end.

    Raises:
        KfrecError: the object storage does not take the request.
    """
    if is_uri(checkpoints):
        write_remote(checkpoints, STOP, "")
        return
    Path(checkpoints).mkdir(exist_ok=True)  # a training makes it with its first checkpoint
    (Path(checkpoints) / STOP).touch()


def take_request(checkpoints: Path) -> bool:
    """Whether there is a request; removes it, so that no other training finds it."""
    try:
        (checkpoints / STOP).unlink()
    except FileNotFoundError:
        return False
    return True


class Watchdog:
    """Exits with STALLED if the block of this context manager takes longer than ``seconds``.

    The exit is immediate: a thread that waits for another rank in native code cannot be interrupted.

    Args:
        rank: of this process, for the message.
        seconds: longest duration of a block; 0 disables the watchdog.
    """

    def __init__(self, rank: int, seconds: int) -> None:
        self._rank, self._seconds = rank, seconds
        self._began: float | None = None
        if seconds:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def __enter__(self) -> None:
        self._began = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self._began = None

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """Yields ``items``, each request of which is a block."""
        iterator, end = iter(items), object()
        while True:
            with self:
                item: Any = next(iterator, end)
            if item is end:
                return
            yield item

    def _watch(self) -> None:
        while True:
            time.sleep(min(self._seconds / 4, _LONGEST_POLL_SECONDS))
            began = self._began
            if began is not None and time.monotonic() - began > self._seconds:
                message = (
                    f"a step takes longer than {self._seconds} s, so another rank hangs or the input is too slow; "
                    "raise stall_seconds if it is the input"
                )
                emit("error", step="train", message=message, crashed=True, rank=self._rank)
                print(f"rank {self._rank}: {message}", file=sys.stderr, flush=True)
                os._exit(STALLED)
