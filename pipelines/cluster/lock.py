"""Reconcilers take turns, by a lock made of what KFP's API offers.

KFP takes an experiment's name only once a namespace, so who creates the experiment ``kfrec-schedules-lock``
has the lock, and deletes it afterwards. A reconciler that was killed leaves it behind; when it is older than its time
to live, the next one deletes it, by its identifier, which is never given again: so nobody deletes a lock that someone
else has just made. A holder checks before each change that its own time is not up.

A holder that sleeps between that check and its request, or a clock that is wrong, can still let two in. Nothing may
rest on there being only one, then: that no two recurring runs of a schedule are enabled is ensured by
:mod:`pipelines.cluster.reconcile` without the lock, which only keeps two from undoing each other's work.
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
    """The time of a holder is up."""


@dataclass(frozen=True)
class LockTimes:
    """How long things may take, in seconds.

    Attributes:
        life: of a lock; then it counts as left behind.
        work: of a holder before it stops changing things; shorter than life by more than a request can take.
        wait: for somebody else's lock.
        pause: between two tries.
    """

    life: float = 600.0
    work: float = 420.0
    wait: float = 660.0
    pause: float = 3.0


@contextmanager
def locked(client: Client, namespace: str | None, times: LockTimes) -> Iterator[Callable[[], None]]:
    """Holds the lock; the function it gives is to be called before each change.

    Raises:
        KfrecError: someone else holds it for too long.
        LockLost: raised by that function when the holder's time is up.
    """
    begun, held = _take(client, namespace, times)

    def check() -> None:
        if time.monotonic() - begun > times.work:
            raise LockLost(f"this took longer than {times.work:g} s; run it again, it goes on where it stopped")

    try:
        yield check
    finally:
        with suppress(Exception):  # left behind, it runs out
            client.delete_experiment(held)


def _take(client: Client, namespace: str | None, times: LockTimes) -> tuple[float, str]:
    """Takes the lock; returns when, by this machine's clock, and its identifier."""
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
