"""Where tasks run: in this process, in local Dask processes, or on a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import dask
from dask.delayed import Delayed

from components.errors import KfrecError
from components.preprocess import fork_server
from components.preprocess.nvtabular_quiet import cudf

_CONNECT_SECONDS = 10
_FORK_FROM_SERVER = {"distributed.worker.multiprocessing-method": "forkserver"}


class Workers(Protocol):
    """Runs tasks."""

    def run(self, tasks: Sequence[Delayed]) -> Iterator[tuple[int, Any]]:
        """The place of a task in ``tasks`` and its result, for each one, in the order in which they end."""
        ...


class ThisProcess:
    """Runs one task after the other here."""

    def run(self, tasks: Sequence[Delayed]) -> Iterator[tuple[int, Any]]:
        for place, task in enumerate(tasks):
            yield place, task.compute(scheduler="synchronous")


class Cluster:
    """Runs tasks on the workers of a Dask client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, tasks: Sequence[Delayed]) -> Iterator[tuple[int, Any]]:
        from distributed import as_completed

        futures = self._client.compute(list(tasks))
        places = {future.key: place for place, future in enumerate(futures)}
        for future, result in as_completed(futures, with_results=True):
            yield places[future.key], result


@contextmanager
def dask_workers(workers: int, scheduler: str, partitions: int) -> Iterator[Workers]:
    """Workers for a data set of so many partitions; NVTabular uses the same ones.

    Args:
        workers: processes on this machine; 0 means one for each core, or a single one where there is a GPU, since
            processes would share it (for several GPUs, give the address of a cluster with one worker for each).
        scheduler: address of a running scheduler, used instead. Its workers need this package and the same folders.
        partitions: more workers than that would idle.

    Raises:
        KfrecError: no scheduler answers at the address.
    """
    count = min(_processes(workers), partitions)
    if not scheduler and count == 1:
        yield ThisProcess()
        return
    if scheduler:
        with _connected(scheduler) as client, client.as_current():
            yield Cluster(client)
        return
    from distributed import Client

    fork_server.start()
    with dask.config.set(_FORK_FROM_SERVER), _local_cluster(count) as cluster, Client(cluster) as client:
        yield Cluster(client)


def check_scheduler(address: str) -> None:
    """Finds out before the long work whether a scheduler answers.

    Raises:
        KfrecError: it does not.
    """
    _connected(address).close()


def _connected(scheduler: str) -> Any:
    from distributed import Client

    try:
        # A client that is set as default stays so even if it never connects.
        return Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise KfrecError(f"scheduler {scheduler}: no Dask scheduler answers ({reason}); check the address") from None


def _processes(workers: int) -> int:
    return workers or (1 if cudf is not None else fork_server.cores())


def _local_cluster(workers: int) -> Any:
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        memory_limit=None,
        dashboard_address=None,
        # Even without a dashboard there is a port, which would be 8787 and a warning where that is taken.
        scheduler_kwargs={"dashboard_address": "localhost:0"},
        silence_logs=logging.CRITICAL,
        preload=["components.preprocess.nvtabular_quiet"],
    )
