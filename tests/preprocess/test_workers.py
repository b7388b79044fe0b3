from multiprocessing import forkserver

import psutil
import pytest

from components.errors import WorkerCrashed
from components.workflows import workers as dask
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


def test_nobody_else_runs_code_in_the_workers_of_this_machine():
    from distributed import Client

    # Servers of other tests may still listen in this process.
    earlier = listening_sockets(psutil.Process())
    with dask._local_client(2) as client:
        assert client.submit(sum, [1, 2]).result() == 3
        opened = listening_sockets(psutil.Process()) - earlier
        assert opened and {ip for ip, _ in opened} <= {"127.0.0.1", "::1"}
        address = client.scheduler.address
        assert address.startswith("tls://")
        with pytest.raises((OSError, TypeError)):
            Client(address, timeout="2s", set_as_default=False)
        with pytest.raises(OSError):
            Client(address.replace("tls://", "tcp://"), timeout="2s", set_as_default=False)
