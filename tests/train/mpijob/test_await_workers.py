"""The launcher's wait for the workers, against sockets of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from components.train.mpijob import await_workers
from components.train.mpijob.await_workers import UNREACHED, await_hosts, hosts_in
from tests.fakes.handler import free_port
from tests.waiting import LONGEST

Listen = Callable[[bytes], int]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Starts a server of this machine that greets with some bytes, and gives its port."""
    servers: list[socket.socket] = []

    def start(greeting: bytes) -> int:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(greeting)

        threading.Thread(target=serve, daemon=True).start()
        return server.getsockname()[1]

    yield start
    for server in servers:
        server.close()


def test_the_hosts_are_those_of_the_host_file(tmp_path: Path) -> None:
    file = tmp_path / "hostfile"
    file.write_text("j-worker-0.j.ns.svc slots=2\n# none\n\nj-worker-1.j.ns.svc slots=2\nj-worker-0.j.ns.svc slots=2\n")
    assert hosts_in(file) == ["j-worker-0.j.ns.svc", "j-worker-1.j.ns.svc"]
    assert hosts_in(tmp_path / "none") == []


def test_a_name_that_resolves_late_is_waited_for(listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    port, connect, late = listen(b"SSH-2.0-x\r\n"), socket.create_connection, iter([True, True])

    def resolve_late(address: tuple[str, int], timeout: float) -> socket.socket:
        if address[0] == "late" and next(late, False):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return connect(("127.0.0.1", address[1]), timeout)

    monkeypatch.setattr(await_workers.socket, "create_connection", resolve_late)
    assert await_hosts(["soon", "late"], port, LONGEST) == {}
    assert next(late, None) is None


def test_hosts_that_do_not_answer_are_named_with_the_reason() -> None:
    assert await_hosts(["127.0.0.1"], free_port(), 0) == {"127.0.0.1": "Connection refused"}


def test_a_proxy_that_answers_for_sshd_is_no_answer(listen: Listen) -> None:
    assert await_hosts(["127.0.0.1"], listen(b""), 0) == {"127.0.0.1": "something that is not sshd answers"}


def run(tmp_path: Path, port: int, seconds: float) -> subprocess.CompletedProcess[str]:
    file = tmp_path / "hostfile"
    file.write_text("127.0.0.1 slots=1\n")
    command = [sys.executable, "-m", "components.train.mpijob.await_workers", f"--port={port}", f"--seconds={seconds}"]
    environment = {"OMPI_MCA_orte_default_hostfile": str(file), "PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run([*command, "/bin/echo", "-np", "2"], env=environment, capture_output=True, text=True)


def test_it_becomes_the_command_when_all_answer(tmp_path: Path, listen: Listen) -> None:
    assert run(tmp_path, listen(b"SSH-2.0-x\r\n"), LONGEST).stdout == "-np 2\n"


def test_it_ends_with_a_status_that_is_not_that_of_bad_input(tmp_path: Path) -> None:
    port = free_port()
    done = run(tmp_path, port, 0)
    assert done.returncode == UNREACHED and done.stdout == ""
    assert done.stderr == f"workers do not answer on port {port} after 0 s: 127.0.0.1: Connection refused\n"
