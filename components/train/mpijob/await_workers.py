"""Waits in a launcher until every worker's name resolves and its sshd answers, then executes mpirun.

python -m components.train.mpijob.await_workers --port=2222 --seconds=3600 mpirun -np 4 ...

DNS publishes a worker's name after its pod is ready, sshd may start later still, and mpirun fails at the first
unreachable host. The operator waits for the workers only before a job's first launcher. A job that was suspended, also
from its creation, as in a queue, has a launcher already, which starts together with its workers.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

# Set by the operator to the path of the host file, and its default.
_VARIABLE, _FILE = "OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"
_ANSWER_SECONDS = 5.0
_PAUSE_SECONDS = 0.5
# The exit status if a worker does not answer; the worker's own statuses are lower.
UNREACHED = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns only if a worker does not answer: UNREACHED."""
    parser = argparse.ArgumentParser(prog="python -m components.train.mpijob.await_workers")
    parser.add_argument("--port", type=int, required=True, help="of sshd")
    parser.add_argument("--seconds", type=float, required=True, help="longest time to wait")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="to run then")
    options = parser.parse_args(arguments)
    silent = await_hosts(hosts_in(Path(os.environ.get(_VARIABLE, _FILE))), options.port, options.seconds)
    if silent:
        reasons = "; ".join(f"{host}: {reason}" for host, reason in silent.items())
        print(f"workers do not answer on port {options.port} after {options.seconds:.0f} s: {reasons}", file=sys.stderr)
        return UNREACHED
    sys.stdout.flush()
    os.execvp(options.command[0], options.command)


def hosts_in(file: Path) -> list[str]:
    """The distinct hosts of an Open MPI host file; none if the file is missing."""
    if not file.is_file():
        return []
    lines = (line.partition("#")[0].split() for line in file.read_text().splitlines())
    return list(dict.fromkeys(words[0] for words in lines if words))


def await_hosts(hosts: Iterable[str], port: int, seconds: float) -> dict[str, str]:
    """Waits until sshd answers on every host.

    Returns:
        The hosts that did not answer in time, with the last error of each.
    """
    until = time.monotonic() + seconds
    silent = dict.fromkeys(hosts, "")
    while silent:
        tried = {host: _trouble(host, port) for host in silent}
        silent = {host: reason for host, reason in tried.items() if reason}
        if not silent or time.monotonic() >= until:
            break
        time.sleep(_PAUSE_SECONDS)
    return silent


def _trouble(host: str, port: int) -> str:
    """Why sshd does not answer, or an empty string."""
    try:
        with socket.create_connection((host, port), _ANSWER_SECONDS) as connection:
            connection.settimeout(_ANSWER_SECONDS)
            return "" if connection.recv(4) == b"SSH-" else "something that is not sshd answers"
    except OSError as error:  # includes failed name resolution
        return error.strerror or str(error)


if __name__ == "__main__":
    sys.exit(main())
