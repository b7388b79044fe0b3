"""Runs a function on several processes that Horovod connects."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from components.train.launching.launch import LocalLauncher, run_processes
from tests.listening import listening_sockets

if TYPE_CHECKING:
    from components.train.loop.ranks import Ranks

# Small steps wait for messages most of the time.
QUICK = {"HOROVOD_CYCLE_TIME": "1", "OMP_NUM_THREADS": "1"}


def on_ranks(size: int, transport: str, function: str, folder: Path, *arguments: Any) -> None:
    """Calls ``function`` on every rank.

    Args:
        size: number of ranks.
        transport: gloo or mpi.
        function: "module:name" of one that takes the ranks, the folder and the arguments.
        folder: where it writes.
        arguments: JSON.

    Raises:
        AssertionError: a rank failed; with its last words.
    """
    launcher, lines = LocalLauncher(transport, module="tests.train.ranks"), list[str]()
    with launcher.environments(size) as environments:
        command = launcher.command(size, [function, str(folder), json.dumps(arguments)])
        status = run_processes(command, [each | QUICK for each in environments], lambda *line: lines.append(line[-1]))
    assert status == 0, "\n".join(lines)[-4000:]


# Modules whose tests look at what two ranks did in one pair of processes, which take longer to start than to work.
# ``prepare(folder)`` gives the arguments, and ``rank_main(ranks, folder, *arguments)`` is what a rank does; where a
# module has none, the arguments are the words of trainings by name.
TOGETHER = (
    "tests.models.layers.test_batch_normalization",
    "tests.models.layers.test_global_batch",
    "tests.models.test_sasrec",
    "tests.train.loop.test_sharded",
    "tests.train.test_best_epoch",
    "tests.train.test_electra",
    "tests.train.test_item_knn",
    "tests.train.test_wide_and_deep",
    "tests.train.test_worker",
)

# The addresses on which the launcher's server and the first rank accept connections, in the folder of them all.
LISTENING = "listening.json"


def run_together(folder: Path, modules: Sequence[str]) -> None:
    """Runs the ``rank_main`` of modules on two ranks, each with a folder of its name."""
    arguments: dict[str, Sequence[Any]] = {}
    for name in modules:
        (folder / name).mkdir()
        module = importlib.import_module(name)
        arguments[name] = module.prepare(folder / name) if hasattr(module, "prepare") else ()
    on_ranks(2, "gloo", "tests.train.ranks:rank_main", folder, arguments)


def rank_main(ranks: Ranks, folder: Path, arguments: Mapping[str, Sequence[Any]]) -> None:
    if ranks.rank == 0:
        port = int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
        launcher = {ip for ip, used in listening_sockets(psutil.Process().parent()) if used == port}
        own = {ip for ip, _ in listening_sockets(psutil.Process())}
        (folder / LISTENING).write_text(json.dumps([sorted(launcher), sorted(own)]))
    for name, given in arguments.items():
        getattr(importlib.import_module(name), "rank_main", run_workers)(ranks, folder / name, *given)


def run_workers(ranks: Ranks, folder: Path, trainings: Mapping[str, Sequence[str]]) -> None:
    from tests.train.in_process import run_worker

    for name, words in trainings.items():
        run_worker(words, folder / f"{name}-{ranks.rank}.log")


if __name__ == "__main__":
    from components.train.loop.ranks import Horovod

    module, _, name = sys.argv[1].partition(":")
    getattr(importlib.import_module(module), name)(Horovod(), Path(sys.argv[2]), *json.loads(sys.argv[3]))
