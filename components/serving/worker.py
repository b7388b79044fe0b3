"""A process of a model's server: loads the model, answers an example, and then requests until it is stopped.

The launcher may name another model meanwhile, which is loaded beside the one that answers, and then, once every process
has loaded it, say to switch.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TextIO

import uvicorn

from components.crash import describe_exception
from components.errors import KfrecError
from components.lifetime import end_with_parent
from components.scoring.model import import_tensorflow
from components.served_rows.log import ServedLog, opened
from components.serving.counters import Counters

if TYPE_CHECKING:
    from components.serving.app import Deployed, Serving

# Seconds in which answers close the connections that clients hold open, before the server closes them.
_FAREWELL = 0.3
# Seconds for requests that are being answered; the launcher waits a little longer.
_LAST_ANSWERS = 15
# Pools of clients and proxies keep a connection for less, so that they close it first.
_KEEP_ALIVE = 75


@dataclass(frozen=True)
class ModelFiles:
    """A model to be served.

    Attributes:
        folder: the model's, or the pair's.
        name: of the model, as clients see it.
        version: of the model; empty for a folder.
        logged_as: the model's name in the log.
    """

    folder: str
    name: str
    version: str
    logged_as: str


@dataclass(frozen=True)
class Task:
    """What a process serves.

    Attributes:
        model: fields of ``ModelFiles``.
        listener: descriptor of the bound socket.
        counts: the file that the processes share; see ``components.serving.counters.Counters``.
        worker: number of the process, from 0.
        log: folder or URI of the log of served rows; empty logs nothing.
        variant: of the rows of the log.
    """

    model: Mapping[str, str]
    listener: int
    counts: str
    worker: int
    workers: int
    log: str = ""
    variant: str = ""


# Key of a line that names a model to load, and the line that says to switch to it.
LOAD, SWITCH = "load", {"switch": True}


class _Server(uvicorn.Server):
    """Says when it listens, takes other models, and lets clients end their connections before it ends."""

    def __init__(self, config: uvicorn.Config, answers: TextIO, serving: Serving) -> None:
        super().__init__(config)
        self._answers, self._serving = answers, serving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        Thread(target=self._follow, args=[asyncio.get_running_loop()], name="models", daemon=True).start()
        self._say({})

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Loads the models that the launcher names, and switches when it says so."""
        loaded: Deployed | None = None
        for line in sys.stdin:
            order = json.loads(line)
            if LOAD in order:
                try:
                    loaded = _deployed(ModelFiles(**order[LOAD]), self._serving.counters)
                    self._say({})
                except Exception as error:
                    self._serving.counters.add("kfrec_model_refusals_total")
                    self._say({"error": describe_exception(error)})
            elif loaded is not None:
                loop.call_soon_threadsafe(self._serving.switch, loaded)
                loaded = None
                _collect()

    def _say(self, answer: Mapping[str, str]) -> None:
        print(json.dumps(answer), file=self._answers, flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.server_state.default_headers.append((b"connection", b"close"))
        await asyncio.sleep(_FAREWELL)
        await super().shutdown(sockets)
        if self._serving.log is not None:  # uvicorn then ends the process by the signal that it got
            self._serving.log.close()


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
    from components.serving.app import application

    try:
        serving = _serving(task)
    except KfrecError as error:
        print(json.dumps({"error": str(error)}), file=answers, flush=True)
        return
    config = uvicorn.Config(
        application(serving), log_level="warning", access_log=False, lifespan="off", server_header=False,
        timeout_keep_alive=_KEEP_ALIVE, timeout_graceful_shutdown=_LAST_ANSWERS,
    )  # fmt: skip
    _Server(config, answers, serving).run([socket.socket(fileno=task.listener)])


def _import_tensorflow() -> None:
    """Imports TensorFlow without Keras, which takes nearly as long again and which a SavedModel does not need."""
    sys.modules["keras"] = None  # type: ignore[assignment]
    import_tensorflow()
    del sys.modules["keras"]


def _serving(task: Task) -> Serving:
    from components.serving.app import Serving

    counters = Counters(Path(task.counts), task.worker, task.workers)
    deployed = _deployed(ModelFiles(**task.model), counters)
    log = ServedLog(opened(task.log), counters) if task.log else None
    return Serving(deployed, counters, log, task.variant)


def _deployed(files: ModelFiles, counters: Counters) -> Deployed:
    from components.feature_spec import load_feature_spec
    from components.scoring.pair import is_pair
    from components.scoring.raw import refusal_of_rows
    from components.scoring.served import Served
    from components.scoring.served_features import ServedFeatures

    folder = Path(files.folder)
    takes_rows = is_pair(folder) or not refusal_of_rows(load_feature_spec(folder))
    model: Served | ServedFeatures = Served(folder) if takes_rows else ServedFeatures(folder)
    # What a first request would wait for: TensorFlow's threads and memory, and the encoded candidates.
    for request in model.example():
        model.answer([request])
    _collect()
    from components.serving.app import Deployed

    return Deployed(model, files.name, files.version, files.logged_as, counters)


def _collect() -> None:
    """Collects what is unreachable, a model before included, and keeps the rest out of later collections.

    A full collection walks all of TensorFlow's objects, while requests wait.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()
