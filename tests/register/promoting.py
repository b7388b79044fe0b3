"""The register step as a process of its own that meets another one, or is killed, at a call of MLflow's client.

python -m tests.register.promoting meet FOLDER -- ARGUMENTS    waits for a second process before it moves an alias
python -m tests.register.promoting kill METHOD -- ARGUMENTS    is killed when it calls METHOD of the client
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from components.register.registry import DECISION
from components.steps.command import command

_WAIT_SECONDS = 240


def meet(folder: Path) -> None:
    """The first move of an alias waits until two processes are about to make theirs."""
    move = MlflowClient.set_registered_model_alias

    def moved(*given: Any) -> None:
        place = folder / str(os.getpid())
        if not place.exists():
            place.touch()
            until = time.monotonic() + _WAIT_SECONDS
            while len(list(folder.iterdir())) < 2 and time.monotonic() < until:
                time.sleep(0.01)
        move(*given)

    MlflowClient.set_registered_model_alias = moved  # type: ignore[method-assign, assignment]


def kill(method: str) -> None:
    """The call of the client ends this process; of the tags of a version only that of the decision does."""
    call = getattr(MlflowClient, method)

    def killed(*given: Any, **named: Any) -> Any:
        if method != "set_model_version_tag" or DECISION in given:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given, **named)

    setattr(MlflowClient, method, killed)


if __name__ == "__main__":
    how, place, _, *arguments = sys.argv[1:]
    meet(Path(place)) if how == "meet" else kill(place)
    sys.exit(command("register", arguments))
