"""Why a job ended, as one-line messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from components.cluster.pods import exit_of, one_line
from components.train.mpijob.job import LAUNCHER, ROLE_LABEL, WORKER

Json = dict[str, Any]
# The status of a worker; its module needs what the image of this step does not have.
BAD_INPUT = 2


def condition(job: Json, kind: str) -> Json | None:
    """The job's condition of a type whose status is "True", at any position of the list."""
    conditions = job.get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def outcome(job: Json) -> str | None:
    """ "Succeeded" or "Failed" where the job is done, else None."""
    return next((kind for kind in ("Failed", "Succeeded") if condition(job, kind)), None)


def failed_pod(pods: Sequence[Json]) -> Json | None:
    """The pod that explains a failure best: a worker that was killed or evicted, else the newest failed launcher."""
    told = [pod for pod in pods if exit_of(pod)]
    workers = [pod for pod in told if _role(pod) == WORKER]
    return workers[0] if workers else told[-1] if told else None


def lost_worker(pods: Sequence[Json], known: Mapping[str, str]) -> str:
    """Why the workers can no longer train together, or an empty text.

    The operator does not replace a failed worker, and mpirun cannot use a replaced one. mpirun may detect the loss
    late, so the pods are checked.

    Args:
        pods: of the job, which is neither suspended nor being deleted.
        known: name and uid of the workers that have run.
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
    """Name and uid of the workers that run."""
    return {
        pod["metadata"]["name"]: pod["metadata"]["uid"]
        for pod in pods
        if _role(pod) == WORKER and pod.get("status", {}).get("phase") == "Running"
    }


def bad_input(pods: Sequence[Json]) -> bool:
    """Whether the last launcher exited with the status of a worker with invalid input, which mpirun passes on."""
    launchers = [pod for pod in pods if _role(pod) == LAUNCHER]
    statuses = launchers[-1].get("status", {}).get("containerStatuses", ()) if launchers else ()
    return any((s.get("state", {}).get("terminated") or {}).get("exitCode") == BAD_INPUT for s in statuses)


def why_failed(job: Json, pods: Sequence[Json]) -> str:
    """The reason of a failed job: its own, and that of the pod behind it."""
    failure = condition(job, "Failed") or {}
    own = ": ".join(text for text in (failure.get("reason"), one_line(failure.get("message"))) if text)
    pod = failed_pod(pods)
    return "; ".join(text for text in (own, f"{pod['metadata']['name']}: {exit_of(pod)}" if pod else "") if text)


def _role(pod: Json) -> str:
    return pod["metadata"].get("labels", {}).get(ROLE_LABEL, "")
