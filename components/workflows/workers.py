"""Where tasks run: in this process, in local Dask processes, or on a Dask cluster."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import dask
from dask.delayed import Delayed
from distributed.security import Security

from components.errors import KfrecError, WorkerCrashed
from components.images import VERSION
from components.lifetime import Stopped
from components.workflows.startup import cores, start_fork_server

_CONNECT_SECONDS = 10
# Importing from a cold disk takes its time.
_START_SECONDS = 120
_SAME_IMAGE = "step, scheduler and workers have to run the same image"
_FORK_FROM_SERVER = {"distributed.worker.multiprocessing-method": "forkserver"}


class Workers(Protocol):
    def run(self, tasks: Sequence[Delayed]) -> Iterator[tuple[int, Any]]:
        """Yields each task's index in ``tasks`` and its result, in order of completion."""
        ...


def in_order(workers: Workers, tasks: Sequence[Delayed], ended: Callable[[int, Any], Any] | None = None) -> list[Any]:
    """The results of ``tasks``, in their order; calls ``ended`` with the index and result of each as it completes."""
    results: list[Any] = [None] * len(tasks)
    for index, result in workers.run(tasks):
        results[index] = result
        if ended is not None:
            ended(index, result)
    return results


class ThisProcess:
    """Runs the tasks one after the other in this process."""

    def run(self, tasks: Sequence[Delayed]) -> Iterator[tuple[int, Any]]:
        for index, task in enumerate(tasks):
            yield index, task.compute(scheduler="synchronous")


class Cluster:
    """Runs tasks on the workers of a Dask client. The tasks of a lost worker run again on another one.

    Raises:
        WorkerCrashed: the same task loses several workers, or the scheduler is lost.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, tasks: Sequence[Delayed]) -> Iterator[tuple[int, Any]]:
        from distributed import KilledWorker, as_completed

        futures = self._client.compute(list(tasks))
        indices = {future.key: index for index, future in enumerate(futures)}
        try:
            for future, result in as_completed(futures, with_results=True):
                if isinstance(result, CancelledError):
                    raise WorkerCrashed("the Dask scheduler has ended, and the work with it; run the step again")
                yield indices[future.key], result
        except KilledWorker as killed:
            raise WorkerCrashed(
                f"{killed.allowed_failures + 1} Dask workers ended at the same task, probably killed for too little "
                "memory; give them more memory, or make the partitions smaller"
            ) from None


@contextmanager
def dask_workers(workers: int, scheduler: str, partitions: int) -> Iterator[Workers]:
    """Workers for a data set; NVTabular uses the same ones.

    Args:
        workers: processes on this machine; 0 means one for each core.
        scheduler: address of a running scheduler, used instead; see ``check_workers``.
        partitions: number of partitions; more workers would idle.

    Raises:
        KfrecError: no scheduler answers at the address.
    """
    count = min(workers or cores(), partitions) if partitions > 1 else 1
    if not scheduler and count == 1:
        yield ThisProcess()
        return
    if scheduler:
        client = _connected(scheduler)
        try:
            with client.as_current():
                yield Cluster(client)
        except Stopped:  # about a second remains
            raise
        except BaseException:
            client.close()
            raise
        client.close()
        return
    with _local_client(count) as client:
        yield Cluster(client)


def check_workers(scheduler: str, folder: Path) -> None:
    """Checks early whether the workers of a scheduler can do the work.

    Raises:
        KfrecError: no scheduler answers, it has no workers, they are of another version, or a worker cannot read what
            this process wrote there, or vice versa.
    """
    with _connected(scheduler) as client:
        if not client.scheduler_info()["workers"]:
            raise KfrecError(f"scheduler {scheduler}: has no workers; start some (an adaptive cluster needs a minimum)")
        versions = client.get_versions()
        here = _version(versions["client"])
        for process, installed in {f"scheduler {scheduler}": versions["scheduler"], **versions["workers"]}.items():
            if _version(installed) != here:
                raise KfrecError(f"{process}: runs {_version(installed)}, this step {here}; {_SAME_IMAGE}")
        check, token = folder / "check", secrets.token_hex(8)
        check.mkdir()
        (check / "step").write_text(token)
        for worker, answer in client.run(_answer, str(check), token, on_error="return").items():
            _check_answer(worker, answer, check, token)
        shutil.rmtree(check)


@dataclass(frozen=True)
class _Answer:
    """A worker's description of itself."""

    file: str
    kfrec: str


def _answer(folder: str, token: str) -> _Answer:
    """Reads and writes in a folder; runs on a worker."""
    if Path(folder, "step").read_text() != token:
        raise FileNotFoundError(2, "another file is there", str(Path(folder, "step")))
    answer = _Answer(f"worker-{uuid4().hex}", VERSION)
    Path(folder, answer.file).write_text(token)
    return answer


def _check_answer(worker: str, answer: Any, folder: Path, token: str) -> None:
    share = "step and workers need one volume at the same path, writable for both: parameter shared_folder"
    if isinstance(answer, OSError):
        does = "does not see" if str(answer.filename).endswith("/step") else "cannot write"
        raise KfrecError(f"Dask worker {worker}: {does} {answer.filename} ({answer.strerror}); {share}")
    if isinstance(answer, Exception):
        raise KfrecError(f"Dask worker {worker}: {' '.join(str(answer).split())}; {_SAME_IMAGE}")
    if answer.kfrec != VERSION:
        raise KfrecError(f"Dask worker {worker}: runs kfrec {answer.kfrec}, this step {VERSION}; {_SAME_IMAGE}")
    file = folder / answer.file
    if not file.is_file() or file.read_text() != token:
        raise KfrecError(f"{file}: was written by Dask worker {worker} but is not visible to this step; {share}")


def _version(process_versions: Mapping[str, Any]) -> str:
    packages = process_versions["packages"]
    python = ".".join(str(packages["python"]).split(".")[:2])
    return f"distributed {packages['distributed']} on Python {python}"


def _connected(scheduler: str) -> Any:
    from distributed import Client
    from distributed.comm import connect
    from distributed.security import Security

    async def answers() -> None:
        arguments = Security().get_connection_args("client")
        await (await connect(scheduler, timeout=_CONNECT_SECONDS, **arguments)).close()

    try:
        # First without a client: one that fails while it connects closes itself when it is collected. If that happens
        # while another one starts, both wait for the same lock forever.
        asyncio.run(answers())
        # A client that is set as default stays so even if it never connects.
        return Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:
        reason = str(error) or type(error).__name__
        raise KfrecError(f"scheduler {scheduler}: no Dask scheduler answers ({reason}); check the address") from None


@contextmanager
def _local_client(workers: int) -> Iterator[Any]:
    """The client of a cluster of processes on this machine."""
    from distributed import Client, LocalCluster

    start_fork_server()
    with dask.config.set(_FORK_FROM_SERVER):
        # The cluster starts without workers: it would wait forever for one that is killed while it is forked.
        cluster = LocalCluster(
            n_workers=0,
            threads_per_worker=1,
            memory_limit=None,
            dashboard_address=None,
            # Even without a dashboard Dask's processes open ports, by default on every address.
            scheduler_kwargs={"dashboard_address": "localhost:0"},
            worker_dashboard_address="localhost:0",
            # A client may run any code, so it must have the key of this cluster, which only its processes know.
            security=LocalSecurity.temporary(),
            silence_logs=logging.CRITICAL,
            preload=["components.workflows.nvtabular_quiet"],
        )
        client = Client(cluster)
        try:
            cluster.scale(workers)
            client.wait_for_workers(workers, timeout=_START_SECONDS)
        except TimeoutError:
            with suppress(TimeoutError):
                client.close()
                cluster.close(timeout=_CONNECT_SECONDS)
            cluster.shutdown_on_close = False  # At the end of the process it would try again.
            raise WorkerCrashed(
                f"{workers} Dask workers did not start in {_START_SECONDS} s, probably because one was killed for too "
                "little memory; run the step again, with fewer workers if this recurs"
            ) from None
        with cluster, client:
            yield client


class LocalSecurity(Security):
    """Dask's TLS, whose connections end without a goodbye, as Dask's do.

    OpenSSL takes such an end for an attack and sends an alert into the closed connection. Since OpenSSL 3.5 the broken
    pipe of that alert is reported by the next connection that is read, which is then closed, too. Dask's messages have
    their length, so that one that is cut off is noticed all the same.
    """

    def _get_tls_context(self, tls: Any, purpose: ssl.Purpose) -> ssl.SSLContext | None:
        context = super()._get_tls_context(tls, purpose)
        if context is not None:
            context.options |= ssl.OP_IGNORE_UNEXPECTED_EOF
        return context
