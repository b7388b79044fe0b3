"""The life of one DaskCluster: it is created by a step and deleted when the step ends.

If this process cannot delete it (its machine is gone), the next preprocess step does, or the garbage collection through
the owner reference to the run's Workflow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from distributed import Client
from tqdm import tqdm

from components.cluster.api import Cluster, Refused, connect
from components.cluster.owner import find_owner, own_pod
from components.cluster.pods import diagnosed, exit_of, waiting_for
from components.errors import KfrecError, WorkerCrashed
from components.preprocess.dask_cluster.body import KIND, OWN_LABELS, POD_ANNOTATION, dask_cluster
from components.preprocess.dask_settings import DaskSettings

Json = dict[str, Any]
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True)
class Pace:
    """Polling interval and timeouts, in seconds.

    Attributes:
        look: polling interval for pods and workers.
        answer: timeout of a scheduler.
        parting: wait for an unavailable API server when the cluster is deleted.
    """

    look: float = 5.0
    answer: float = 5.0
    parting: float = 60.0


@contextmanager
def running_cluster(
    workers: int, settings: DaskSettings, pace: Pace | None = None, echo: Callable[[str], None] = tqdm.write
) -> Iterator[str]:
    """Yields the address of the scheduler of a new DaskCluster once all its workers have connected.

    Args:
        workers: number of workers.
        settings: cluster settings.
        pace: polling interval and timeouts.
        echo: called with a line for the user.

    Raises:
        KfrecError: the cluster cannot be created, or its workers do not connect.
    """
    if not settings.shared_folder or not settings.shared_volume:
        raise KfrecError(
            f"dask_workers={workers}: step and workers share no folder; name shared_folder and shared_volume in the "
            "file dask_settings (docs/install-on-a-cluster.md)"
        )
    pace = pace or Pace()
    cluster = connect(KIND, settings.namespace, echo=echo)
    name = f"kfrec-dask-{uuid4().hex[:10]}"
    owner, pod = find_owner(cluster, own_pod()), own_pod()
    body = dask_cluster(name, cluster.namespace, workers, settings, owner, pod.name if owner else "")
    _delete_abandoned(cluster, echo)
    try:
        cluster.create(body)
    except Refused as refused:
        if refused.status != 409:  # the name is random: an existing object is this one, and the first answer got lost
            raise KfrecError(_explained(refused, cluster)) from None
    except BaseException:  # an answer may get lost
        cluster.delete_at_the_end(name, pace.parting)
        raise
    try:
        echo(f"created DaskCluster {name} in namespace {cluster.namespace}")
        address = settings.address.replace("{name}", name).replace("{namespace}", cluster.namespace)
        _await_workers(cluster, name, workers, address, settings.start_seconds, pace, echo)
        yield address
    except WorkerCrashed as crashed:
        ends = diagnosed("the pods", lambda: _ends(cluster, name, pace.answer), echo) or ()
        raise WorkerCrashed("; ".join([str(crashed), *ends])) from None
    except Refused as refused:
        raise KfrecError(_explained(refused, cluster)) from None
    finally:
        # First of all: a step that is asked to stop has about a second.
        cluster.delete_at_the_end(name, pace.parting)


def _delete_abandoned(cluster: Cluster, echo: Callable[[str], None]) -> None:
    """Deletes clusters of steps that ended without deleting them: killed, or on a lost machine."""
    selector = ",".join(f"{label}={value}" for label, value in OWN_LABELS.items())

    def look() -> None:
        for found in cluster.objects(selector):
            name, annotations = found["metadata"]["name"], found["metadata"].get("annotations", {})
            if (pod := annotations.get(POD_ANNOTATION)) and _has_ended(cluster.pod(pod)):
                echo(f"DaskCluster {name} of {pod}, which has ended, is deleted")
                cluster.delete(name)

    diagnosed("old DaskClusters", look, echo)


def _has_ended(pod: Json | None) -> bool:
    return pod is None or pod.get("status", {}).get("phase") in _ENDED


def _await_workers(
    cluster: Cluster, name: str, workers: int, address: str, longest: int, pace: Pace, echo: Callable[[str], None]
) -> None:
    """Waits for the workers and reports why they are pending, each reason once.

    Raises:
        KfrecError: they have not connected in time, or cannot start.
    """
    reported: set[str] = set()

    def echo_once(text: str) -> None:
        if text not in reported:
            reported.add(text)
            echo(text)

    until = time.monotonic() + longest
    while missing := _missing(address, workers, pace.answer):
        reasons = _reasons(cluster, name, echo_once)
        for reason in reasons:
            echo_once(reason)
        if time.monotonic() >= until:
            raise KfrecError(
                "; ".join([f"DaskCluster {name}: {missing} after {longest} s", *reasons])
                + "; the cluster was deleted; correct the file dask_settings, or raise start_seconds in it"
            )
        time.sleep(pace.look)


def _missing(address: str, workers: int, seconds: float) -> str:
    """The missing workers or scheduler, or an empty text."""
    try:
        with Client(address, timeout=seconds, set_as_default=False) as client:
            found = len(client.scheduler_info()["workers"])
    except OSError:
        return "its scheduler does not answer"
    return "" if found >= workers else f"{found} of {workers} workers have come"


def _reasons(cluster: Cluster, name: str, echo_once: Callable[[str], None]) -> list[str]:
    """Why the pods are pending.

    Raises:
        KfrecError: the pods can never run.
    """
    found = cluster.get(name)
    if found is None or found["metadata"].get("deletionTimestamp"):
        raise KfrecError(f"DaskCluster {name} was deleted by someone else; run the step again")
    if found.get("status", {}).get("phase") == "Error":
        raise KfrecError(f"DaskCluster {name}: the Dask operator rejected it; see the operator's log")
    pods = diagnosed("the pods", lambda: cluster.pods(name), echo_once)
    # Deployments create its pods, so quota errors appear at their ReplicaSets.
    events = diagnosed("the events", lambda: cluster.events_of("ReplicaSet", name), echo_once)
    reasons = [*waiting_for(pods or (), events or ()), *(_end_of(pod) for pod in pods or () if exit_of(pod))]
    if pods == [] and not reasons:
        return [f"DaskCluster {name} has no pods; does the Dask operator run, and watch {cluster.namespace}?"]
    return reasons


def _ends(cluster: Cluster, name: str, seconds: float) -> list[str]:
    """How pods of a cluster ended; waits at most this long for their status."""
    until = time.monotonic() + seconds
    while not (ends := [_end_of(pod) for pod in cluster.pods(name) if exit_of(pod)]) and time.monotonic() < until:
        time.sleep(0.2)
    return ends


def _end_of(pod: Json) -> str:
    return f"{pod['metadata']['name']} ended: {exit_of(pod)}"


def _explained(refused: Refused, cluster: Cluster) -> str:
    if refused.status == 403:
        return (
            f"the service account may not do this in namespace {cluster.namespace} ({refused.message}); "
            "apply the role of manifests/base"
        )
    if refused.status == 404:
        return (
            f"the cluster knows no {KIND.name} ({KIND.group}/{KIND.version}); install the Dask operator, or use "
            f"{KIND.instead}"
        )
    return f"a {KIND.name} was refused ({refused}); correct the parameters or the file dask_settings"
