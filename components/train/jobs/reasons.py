"""Why a job ended, as one-line messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.cluster.pods import exit_of, one_line
from components.train.mpijob.await_workers import UNREACHED
from components.train.mpijob.job import LAUNCHER, ROLE_LABEL, WORKER

Json = dict[str, Any]
# The worker's exit status; this step's image cannot import its module.
BAD_INPUT = 2


def condition(job: Json, kind: str) -> Json | None:
    """The job's condition of a type, if its status is "True"."""
    conditions = job.get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def outcome(job: Json) -> str | None:
    """ "Succeeded" or "Failed" for a finished job, else None."""
    return next((kind for kind in ("Failed", "Succeeded") if condition(job, kind)), None)


def failed_pod(pods: Sequence[Json]) -> Json | None:
    """The pod that best explains a failure: a killed or evicted worker, else the newest failed launcher."""
    exited = [pod for pod in pods if exit_of(pod)]
    workers = [pod for pod in exited if _role(pod) == WORKER]
    return workers[0] if workers else exited[-1] if exited else None


def lost_worker(pods: Sequence[Json], known: Mapping[str, str]) -> str:
    """The loss of a worker that ends the training, or an empty string.

    The operator does not replace a failed worker, and mpirun cannot use a replaced one. mpirun may detect the loss
    late, so the pods are checked.

    Args:
        pods: of the job, which is neither suspended nor being deleted.
        known: name to uid of the workers seen running.
    """
    workers = {pod["metadata"]["name"]: pod for pod in pods if _role(pod) == WORKER}
    for name, pod in workers.items():
        status = pod.get("status", {})
        if status.get("phase") == "Failed":
            return f"{name}: {exit_of(pod) or one_line(status.get('reason')) or 'failed'}"
        if pod["metadata"].get("deletionTimestamp"):
            return f"{name}: being deleted from its node"
    for name, uid in known.items():
        if name not in workers or workers[name]["metadata"]["uid"] != uid:
            return f"{name}: was deleted from its node"
    return ""


def running_workers(pods: Sequence[Json]) -> dict[str, str]:
    """Name to uid of the running workers."""
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in pods
        if _role(pod) == WORKER and pod.get("status", {}).get("phase") == "Running"
    }


def bad_input(pods: Sequence[Json]) -> bool:
    """Whether the last launcher exited with a worker's status for invalid input, which mpirun propagates."""
    return _exited(pods, BAD_INPUT)


def unreached(pods: Sequence[Json]) -> bool:
    """Whether the last launcher gave up waiting for its workers."""
    return _exited(pods, UNREACHED)


def _exited(pods: Sequence[Json], status: int) -> bool:
    launchers = [pod for pod in pods if _role(pod) == LAUNCHER]
    statuses = launchers[-1].get("status", {}).get("containerStatuses", ()) if launchers else ()
    return any((s.get("state", {}).get("terminated") or {}).get("exitCode") == status for s in statuses)


def why_failed(job: Json, pods: Sequence[Json]) -> str:
    """The reasons of a failed job and of the responsible pod."""
    failure = condition(job, "Failed") or {}
    # The operator appends the launcher pod's reason and message, which are mostly empty, to its own.
    own = ": ".join(
        text for text in (one_line(failure.get(key)).rstrip("/: ") for key in ("reason", "message")) if text
    )
    pod = failed_pod(pods)
    return "; ".join(text for text in (own, f"{pod['metadata']['name']}: {exit_of(pod)}" if pod else "") if text)


def _role(pod: Json) -> str:
    return pod["metadata"].get("labels", {}).get(ROLE_LABEL, "")
