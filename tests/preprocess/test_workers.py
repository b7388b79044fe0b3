from multiprocessing import forkserver

import pytest

from components.errors import WorkerCrashed
from components.workflows import workers as dask


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
