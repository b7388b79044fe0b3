"""A lock between reconcilers, built on KFP's API.

Experiment names are unique per namespace, so the reconciler that creates the experiment ``kfrec-schedules-lock`` holds
the lock; it deletes the experiment afterwards. A killed reconciler leaves a stale lock behind. Once it exceeds its time
to live, the next reconciler deletes it by its identifier; identifiers are never reused, so a lock that another
reconciler has just created is safe. A holder checks its deadline before each change.

If a holder sleeps between that check and its request, or a clock is wrong, two reconcilers can still hold the lock.
Safety does not depend on it: :mod:`pipelines.cluster.reconcile` ensures without the lock that no two recurring runs of
a schedule are enabled. The lock only keeps reconcilers from undoing each other's work.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from components.errors import KfrecError
from pipelines.cluster.connection import status_of

if TYPE_CHECKING:
    from kfp import Client

NAME = "kfrec-schedules-lock"


class LockLost(KfrecError):
    """The holder's deadline has passed."""


@dataclass(frozen=True)
class LockTimes:
    """Time limits, in seconds.

    Attributes:
        life: time to live of a lock; afterwards it is stale.
        work: deadline for a holder's last change; shorter than life by more than the longest request.
        wait: timeout for another reconciler's lock.
        pause: polling interval.
    """

    life: float = 600.0
    work: float = 420.0
    wait: float = 660.0
    pause: float = 3.0


@contextmanager
def locked(client: Client, namespace: str | None, times: LockTimes) -> Iterator[Callable[[], None]]:
    """Holds the lock; call the yielded function before each change.

    Raises:
        KfrecError: another reconciler holds it for too long.
        LockLost: from that function, after the holder's deadline.
    """
    begun, held = _take(client, namespace, times)

    def check() -> None:
        if time.monotonic() - begun > times.work:
            raise LockLost(f"this took longer than {times.work:g} s; run it again, it resumes where it stopped")

    try:
        yield check
    finally:
        with suppress(Exception):  # a leftover lock expires
            client.delete_experiment(held)


def _take(client: Client, namespace: str | None, times: LockTimes) -> tuple[float, str]:
    """Acquires the lock; returns the time (monotonic clock) and the lock's identifier."""
    from kfp_server_api import ApiException, V2beta1Experiment

    until = time.monotonic() + times.wait
    api: Any = client._experiment_api
    while True:
        begun = time.monotonic()
        try:
            body = V2beta1Experiment(display_name=NAME, description="held while schedules change", namespace=namespace)
            return begun, str(api.experiment_service_create_experiment(body).experiment_id)
        except ApiException as error:
            if status_of(error) != 409:
                raise
        with suppress(ValueError, ApiException):  # it may be gone by now
            other = client.get_experiment(experiment_name=NAME, namespace=namespace)
            age = (datetime.now(timezone.utc) - _utc(other.created_at)).total_seconds()
            if age > times.life:
                client.delete_experiment(other.experiment_id)
                continue
        if time.monotonic() > until:
            raise KfrecError(
                f"another reconciler has been changing schedules for more than {times.wait:g} s; wait, or delete the "
                f"experiment {NAME}"
            )
        time.sleep(times.pause)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
