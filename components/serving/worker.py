"""A process of a model's server: loads the model, answers an example, and then requests until it is stopped."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import uvicorn
from starlette.applications import Starlette

from components.errors import KfrecError
from components.lifetime import end_with_parent
from components.serving.counters import Counters

# Seconds in which answers close the connections that clients hold open, before the server closes them.
_FAREWELL = 0.3
# Seconds for requests that are being answered; the launcher waits a little longer.
_LAST_ANSWERS = 15
# Pools of clients and proxies keep a connection for less, so that they close it first.
_KEEP_ALIVE = 75


@dataclass(frozen=True)
class Task:
    """What a process serves.

    Attributes:
        folder: the model's, or the pair's.
        name: of the model, as clients see it.
        version: of the model; empty for a folder.
        listener: descriptor of the bound socket.
        counts: the file that the processes share; see ``components.serving.counters.Counters``.
        worker: number of the process, from 0.
        workers: number of processes.
    """

    folder: str
    name: str
    version: str
    listener: int
    counts: str
    worker: int
    workers: int

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))


class _Server(uvicorn.Server):
    """Says when it listens, and lets clients end their connections before it ends."""

    def __init__(self, config: uvicorn.Config, answers: TextIO) -> None:
        super().__init__(config)
        self._answers = answers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        print(json.dumps({}), file=self._answers, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.server_state.default_headers.append((b"connection", b"close"))
        await asyncio.sleep(_FAREWELL)
        await super().shutdown(sockets)


def run() -> None:
    """Reads a ``Task`` from standard input and serves it.

    Writes a line of JSON to standard output: an object with the key ``error`` if the model cannot be loaded, else an
    empty one when the socket listens. Other output goes to standard error.
    """
    end_with_parent()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    _import_tensorflow()  # takes seconds, in which the launcher finds the model
    line = sys.stdin.readline()
    if not line:  # the launcher found none
        return
    task = Task(**json.loads(line))
    try:
        app = _application(task)
    except KfrecError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)
        return
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, lifespan="off", server_header=False,
        timeout_keep_alive=_KEEP_ALIVE, timeout_graceful_shutdown=_LAST_ANSWERS,
    )  # fmt: skip
    _Server(config, answers).run([socket.socket(fileno=task.listener)])


def _import_tensorflow() -> None:
    """Imports TensorFlow without Keras, which takes nearly as long again and which a SavedModel does not need."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.modules["keras"] = None  # type: ignore[assignment]
    import tensorflow  # noqa: F401

    del sys.modules["keras"]


def _application(task: Task) -> Starlette:
    from components.feature_spec import load_feature_spec
    from components.scoring.pair import is_pair
    from components.scoring.raw import refusal_of_rows
    from components.scoring.served import Served
    from components.scoring.served_features import ServedFeatures
    from components.serving.app import Serving, application

    folder = Path(task.folder)
    takes_rows = is_pair(folder) or not refusal_of_rows(load_feature_spec(folder))
    model: Served | ServedFeatures = Served(folder) if takes_rows else ServedFeatures(folder)
    # What a first request would wait for: TensorFlow's threads and memory, and the encoded candidates.
    for request in model.example():
        model.answer([request])
    # A full collection walks all of TensorFlow's objects, while requests wait.
    gc.collect()
    gc.freeze()
    counters = Counters(Path(task.counts), task.worker, task.workers)
    return application(Serving(model, task.name, task.version, counters))
