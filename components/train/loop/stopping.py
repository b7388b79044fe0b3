"""The request to end a training now and keep its best epoch: a file among the training's checkpoints.

``kfrec stop`` writes it. The first rank looks for it whenever it reads the losses, and all ranks end the epoch at that
step. Of a training in object storage, the thread that uploads the checkpoints looks for it there.
"""

from __future__ import annotations

from pathlib import Path

from components.artifacts.remote import write_remote
from components.storage import is_uri

STOP = "stop"


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
