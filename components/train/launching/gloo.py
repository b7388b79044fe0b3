"""``python -m components.train.launching.gloo``: horovodrun for an environment whose Horovod has Gloo.

horovodrun imports TensorFlow to check whether Horovod was built with Gloo, which delays the workers by seconds. This
environment's Horovod always has Gloo; without it, the workers fail with Horovod's message.

horovodrun's server, where the workers find one another, listens on every address and trusts every client. All workers
are on this machine, so here it listens on the loopback address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from horovod.runner import launch
from horovod.runner.http import http_server


def main() -> None:
    """Runs horovodrun with the arguments of this process."""
    launch.gloo_built = lambda verbose=False: True
    http_server.find_port = _on_loopback
    launch.run_commandline()


def _on_loopback(server_at: Callable[[tuple[str, int]], Any]) -> tuple[Any, int]:
    """As horovodrun's ``find_port``: the server, and the free port that it took."""
    server = server_at(("127.0.0.1", 0))
    return server, server.server_address[1]


if __name__ == "__main__":
    main()
