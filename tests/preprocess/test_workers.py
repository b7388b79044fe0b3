import asyncio
import gc
import ssl
from multiprocessing import forkserver
from typing import Any

import psutil
import pytest
from distributed import Client
from distributed.comm import connect
from distributed.security import Security

from components.errors import KfrecError, WorkerCrashed
from components.workflows import workers as dask
from components.workflows.workers import LocalSecurity
from tests.listening import listening_sockets


def test_workers_that_cannot_be_forked_are_an_error_in_time(monkeypatch):
    # The fork server was killed while it forked. Dask's own start of a cluster waits forever.
    def killed(fds):
        raise EOFError

    monkeypatch.setattr(forkserver, "connect_to_new_process", killed)
    monkeypatch.setattr(dask, "_START_SECONDS", 1)
    monkeypatch.setattr(dask, "_CONNECT_SECONDS", 1)
    with (
        pytest.raises(WorkerCrashed, match=r"^2 Dask workers did not start in 1 s, .*; run the step again"),
        dask.dask_workers(2, "", 4),
    ):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9", "nowhere:", "other://localhost:9"])
def test_no_client_is_left_of_a_scheduler_that_does_not_answer(monkeypatch, address):
    monkeypatch.setattr(dask, "_CONNECT_SECONDS", 0.2)
    gc.disable()
    try:
        earlier = _clients()
        with pytest.raises(KfrecError, match=rf"^scheduler {address}: no Dask scheduler answers \(.+\); check"):
            dask._connected(address)
        assert _clients() == earlier
    finally:
        gc.enable()


def _clients() -> int:
    return sum(isinstance(found, Client) for found in gc.get_objects())


def test_nobody_else_runs_code_in_the_workers_of_this_machine():
    # Servers of other tests may still listen in this process.
    earlier = listening_sockets(psutil.Process())
    with dask._local_client(2) as client:
        assert client.submit(sum, [1, 2]).result() == 3
        opened = listening_sockets(psutil.Process()) - earlier
        assert opened and {ip for ip, _ in opened} <= {"127.0.0.1", "::1"}
        address = client.scheduler.address
        assert address.startswith("tls://")
        _connect(address, **client.security.get_connection_args("client"))
        with pytest.raises((OSError, TypeError)):
            _connect(address)
        with pytest.raises((OSError, TypeError)):
            _connect(address, **Security.temporary().get_connection_args("client"))
        with pytest.raises(OSError):
            _connect(address.replace("tls://", "tcp://"))


def _connect(address: str, **arguments: Any) -> None:
    async def connected() -> None:
        await (await connect(address, timeout=2, **arguments)).close()

    asyncio.run(connected())


@pytest.mark.parametrize("side", ["get_listen_args", "get_connection_args"])
def test_the_end_of_a_connection_is_no_error_that_the_next_one_reports(side: str) -> None:
    context = getattr(LocalSecurity.temporary(), side)("scheduler")["ssl_context"]
    assert context.options & ssl.OP_IGNORE_UNEXPECTED_EOF and context.verify_mode == ssl.CERT_REQUIRED
