"""``kfrec serve`` on this machine, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from tests.fakes.handler import free_port
from tests.fakes.mlflow_server import running
from tests.waiting import LONGEST


@dataclass(frozen=True)
class ModelServer:
    """A running server.

    Attributes:
        uri: its address.
    """

    uri: str
    process: subprocess.Popen[bytes]

    def get(self, path: str) -> requests.Response:
        """The answer to GET."""
        return requests.get(f"{self.uri}{path}", timeout=LONGEST)

    def post(self, path: str, body: Any) -> requests.Response:
        """The answer to POST of a JSON body."""
        return requests.post(f"{self.uri}{path}", json=body, timeout=LONGEST)


@contextmanager
def serving(named: str, log: Path, *words: str) -> Iterator[ModelServer]:
    """Serves a model for the block.

    Args:
        named: as the command names it.
        log: file for the output of the processes.
        words: further words of the command.
    """
    port = free_port()
    command = [str(Path(sys.executable).with_name("kfrec")), "serve", named, f"--port={port}", *words]
    uri = f"http://127.0.0.1:{port}"
    with running(command, uri, log, os.environ) as process:
        yield ModelServer(uri, process)
