"""One kind of job that trains, and why a job of it ended, as one-line messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.cluster.api import Kind
from components.cluster.pods import exit_of, one_line

Json = dict[str, Any]
# The worker's exit status; this step's image cannot import its module.
BAD_INPUT = 2


@dataclass(frozen=True)
class JobKind(Kind):
    """What the API says of jobs of a kind, and of their pods.

    Attributes:
        role_label: label of a pod; the value is ``launcher`` or ``worker``.
        launcher: role of the pod whose log is that of the training.
        worker: role of the pods that must all run.
        unreached: exit status of a launcher that gave up waiting for its workers.
        policy: a job to the part of its specification that suspends it and deletes it after its end.
    """

    role_label: str
    launcher: str
    worker: str
    unreached: int
    policy: Callable[[Json], Json]

    def is_suspended(self, job: Json) -> bool:
        return bool(self.policy(job).get("suspend")) or condition(job, "Suspended") is not None

    def launchers(self, pods: Sequence[Json]) -> list[Json]:
        return [pod for pod in pods if self._role(pod) == self.launcher]

    def failed_pod(self, pods: Sequence[Json]) -> Json | None:
        """The pod that best explains a failure: a killed or evicted worker, else the newest failed launcher."""
        exited = [pod for pod in pods if exit_of(pod)]
        workers = [pod for pod in exited if self._role(pod) == self.worker]
        return workers[0] if workers else exited[-1] if exited else None

    def lost_worker(self, pods: Sequence[Json], known: Mapping[str, str]) -> str:
        """The loss of a worker that ends the training, or an empty string.

        The operator does not replace a failed worker, and mpirun cannot use a replaced one. mpirun may detect the loss
        late, so the pods are checked.

        Args:
            pods: of the job, which is neither suspended nor being deleted.
        """
        workers = {pod["metadata"]["name"]: pod for pod in pods if self._role(pod) == self.worker}
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

    def running_workers(self, pods: Sequence[Json]) -> dict[str, str]:
        """Name to uid of the running workers."""
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in pods
            if self._role(pod) == self.worker and pod.get("status", {}).get("phase") == "Running"
        }

    def exited(self, pods: Sequence[Json], status: int) -> bool:
        """Whether the last launcher exited with this status, which may be a worker's: mpirun propagates those."""
        launchers = self.launchers(pods)
        statuses = launchers[-1].get("status", {}).get("containerStatuses", ()) if launchers else ()
        return any((s.get("state", {}).get("terminated") or {}).get("exitCode") == status for s in statuses)

    def why_failed(self, job: Json, pods: Sequence[Json]) -> str:
        """The reasons of a failed job and of the responsible pod."""
        failure = condition(job, "Failed") or {}
        # The operator appends the launcher pod's reason and message, which are mostly empty, to its own.
        own = ": ".join(
            text for text in (one_line(failure.get(key)).rstrip("/: ") for key in ("reason", "message")) if text
        )
        pod = self.failed_pod(pods)
        return "; ".join(text for text in (own, f"{pod['metadata']['name']}: {exit_of(pod)}" if pod else "") if text)

    def _role(self, pod: Json) -> str:
        return pod["metadata"].get("labels", {}).get(self.role_label, "")


def condition(job: Json, kind: str) -> Json | None:
    """The job's condition of a type, if its status is "True"."""
    conditions = job.get("status", {}).get("conditions", ())
    return next((c for c in conditions if c["type"] == kind and c["status"] == "True"), None)


def outcome(job: Json) -> str | None:
    """ "Succeeded" or "Failed" for a finished job, else None."""
    return next((kind for kind in ("Failed", "Succeeded") if condition(job, kind)), None)
