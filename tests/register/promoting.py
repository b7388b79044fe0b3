"""Register steps as processes that meet another one, or are killed, at a call of MLflow's client.

They are forked from one process that has imported what they need, which takes longer than what they do. Each line of
its input is JSON: the environment of a step, a file in its working folder for what it says, beside which ``.status``
receives how it ended, and the words of

    meet FOLDER ARGUMENTS    it waits for a second process before it moves an alias
    kill METHOD ARGUMENTS    it is killed when it calls METHOD of the client
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tensorflow  # noqa: F401
from mlflow import MlflowClient

import components.register.step  # noqa: F401
from components.steps.command import command
from components.tracking.standing import DECISION

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


def run(environment: Mapping[str, str], log: Path, words: Sequence[str]) -> None:
    """Runs a step in a child of this process, and notes how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if child := os.fork():
        status = log.with_suffix(".part")
        status.write_text(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))
        status.replace(log.with_suffix(".status"))
        os._exit(0)
    said = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.chdir(log.parent)
    os.environ.clear()
    os.environ.update(environment)
    code, (how, place, *arguments) = 1, words
    try:
        meet(Path(place)) if how == "meet" else kill(place)
        code = command("register", arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for line in sys.stdin:
        if not os.fork():
            step_environment, step_log, step_words = json.loads(line)
            run(step_environment, Path(step_log), step_words)
