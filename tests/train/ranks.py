"""Runs a function on several processes that Horovod connects."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from components.train.launching.launch import LocalLauncher
from tests.waiting import LONGEST

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
    launcher = LocalLauncher(transport, module="tests.train.ranks")
    command = launcher.command(size, [function, str(folder), json.dumps(arguments)])
    done = subprocess.run(
        command, env=os.environ | launcher.environment() | QUICK, capture_output=True, text=True, timeout=LONGEST
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]


if __name__ == "__main__":
    from components.train.loop.ranks import Horovod

    module, _, name = sys.argv[1].partition(":")
    getattr(importlib.import_module(module), name)(Horovod(), Path(sys.argv[2]), *json.loads(sys.argv[3]))
