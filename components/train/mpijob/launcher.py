"""Training in an MPIJob: creates it or finds it again, follows it to its end, and says why it failed.

Whatever happens to this process, no job is started twice and none is left behind: the name is the same for every try of
a run's step, a job found under it is followed, SIGTERM and errors delete it, and where this process cannot (its machine
is gone), the pod's owner reference and the job's time to live do.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from components.errors import KfrecError
from components.lifetime import Stopped, stopping_in_order
from components.steps.catalog import LaunchParameters
from components.steps.settings_file import load_settings_file
from components.train.mpijob.cluster import Cluster, Expired, Refused, connect
from components.train.mpijob.follow import LogFollower
from components.train.mpijob.job import DIGEST, Owner, digest, job_name, mpijob
from components.train.mpijob.reasons import (
    condition,
    exit_of,
    failed_pod,
    image_refused,
    outcome,
    waiting_for,
    why_failed,
)
from components.train.mpijob.settings import JobSettings
from components.train.relay import Relay

Json = dict[str, Any]
_TAIL_LINES = 25


@dataclass(frozen=True)
class Pace:
    """How often to look, and how long to bear what will not get better by itself.

    Attributes:
        look: seconds between two looks at the pods; a watch on the job tells of its end at once.
        image: seconds that an image may be missing.
        grace: seconds that the operator gets to end a job at its deadline, before it is deleted from here.
        quota: seconds between two tries to create a job that is over quota.
    """

    look: int = 10
    image: float = 300.0
    grace: float = 60.0
    quota: float = 30.0


class MpiJobLauncher:
    """See :class:`components.train.launch.Launcher`.

    Args:
        cluster: where jobs run.
        name: of the job; see :func:`components.train.mpijob.job.job_name`.
        parameters: of the step.
        settings: of the cluster.
        owner: the pod this runs in, if any.
        pace: how often to look.
        tell: called with a line for the user.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        parameters: LaunchParameters,
        settings: JobSettings,
        owner: Owner | None = None,
        pace: Pace | None = None,
        tell: Callable[[str], None] = tqdm.write,
    ) -> None:
        self._cluster, self._name, self._owner, self._tell = cluster, name, owner, tell
        self._parameters, self._settings, self._pace = parameters, settings, pace or Pace()
        self._told: set[str] = set()
        self._image_missing_since: float | None = None
        self._deadline = 0.0

    def run(self, workers: int, arguments: Sequence[str], log: Path) -> None:
        """See :class:`components.train.launch.Launcher`; failures are told in one line.

        Raises:
            KfrecError: what a worker said about bad input, or why the job could not run or failed.
        """
        body = mpijob(self._name, self._cluster.namespace, self._parameters, self._settings, arguments, self._owner)
        self._deadline = time.monotonic() + self._parameters.deadline + self._pace.grace
        with log.open("w") as file, Relay(file, tagged=True) as relay, stopping_in_order():
            try:
                job = self._created_or_found(body)
                with LogFollower(self._cluster, self._name, relay, min(2.0, self._pace.look)):
                    job = self._wait(job)
            except (Stopped, KeyboardInterrupt, _GivenUp) as error:
                self._cluster.delete(self._name)
                if isinstance(error, _GivenUp):
                    raise KfrecError(f"MPIJob {self._name}: {error}; the job was deleted") from None
                raise
            except Refused as refused:
                raise KfrecError(self._explained(refused)) from None
            if outcome(job) == "Failed":
                told = self._failure(job)
                if not job.get("status", {}).get("completionTime"):
                    # The operator cleans up only what has a time of completion; the others would keep their GPUs.
                    self._cluster.delete(self._name)
                raise KfrecError(relay.error or told)

    def _created_or_found(self, body: Json) -> Json:
        """Creates the job, or finds the one that an earlier try of this step created."""
        while True:
            try:
                created = self._cluster.create(body)
                self._tell(f"created MPIJob {self._name} in namespace {self._cluster.namespace}")
                return created
            except Refused as refused:
                if refused.status == 403 and "exceeded quota" in refused.message:
                    self._say(f"the namespace is over its quota: {refused.message}; trying again")
                    self._check_deadline()
                    time.sleep(self._pace.quota)
                    continue
                if refused.status != 409:
                    raise
            found = self._cluster.get(self._name)
            if found is None:
                continue  # gone in the meantime
            if found["metadata"].get("deletionTimestamp"):
                self._say("an earlier job of this step is being deleted; waiting for that")
                self._check_deadline()
                time.sleep(min(2.0, self._pace.look))
                continue
            if found["metadata"].get("annotations", {}).get(DIGEST) != digest(body["spec"]):
                raise _GivenUpOnForeign(
                    f"MPIJob {self._name} exists with another specification; delete it with "
                    f"kubectl -n {self._cluster.namespace} delete mpijob {self._name}, or use another run"
                )
            if outcome(found) == "Failed":
                self._tell(f"MPIJob {self._name} of an earlier try has failed; starting it again")
                self._cluster.delete(self._name)
                continue
            self._tell(f"found MPIJob {self._name} of an earlier try; following it")
            self._own(found)
            return found

    def _own(self, found: Json) -> None:
        """Adds this pod to the owners, so that the job outlives the pod that created it."""
        owners = found["metadata"].get("ownerReferences", [])
        if self._owner is not None and all(owner["uid"] != self._owner.uid for owner in owners):
            self._cluster.own(self._name, [*owners, self._owner.reference()])

    def _wait(self, job: Json) -> Json:
        """Follows the job until it is done.

        Raises:
            _GivenUp: its deadline is over, or its image is not to be had.
            KfrecError: someone else deleted it.
        """
        while outcome(job) is None:
            self._check_deadline()
            try:
                for kind, changed in self._cluster.changes(
                    self._name, job["metadata"]["resourceVersion"], self._pace.look
                ):
                    if kind == "DELETED":
                        raise KfrecError(
                            f"MPIJob {self._name} was deleted by someone else; run the step again to start over"
                        )
                    job = changed
                    if outcome(job) is not None:
                        return job
            except Expired:
                time.sleep(min(1.0, self._pace.look))
            found = self._cluster.get(self._name)
            if found is None:
                raise KfrecError(f"MPIJob {self._name} was deleted by someone else; run the step again to start over")
            job = found
            if outcome(job) is None:
                self._look(job)
        return job

    def _look(self, job: Json) -> None:
        """Tells what keeps the job from running, each reason once."""
        if condition(job, "Suspended"):
            queue = f", waiting in queue {self._settings.queue}" if self._settings.queue else ""
            self._say(f"MPIJob {self._name} is suspended{queue}")
            self._deadline = max(self._deadline, time.monotonic() + self._parameters.deadline + self._pace.grace)
            return
        pods = self._cluster.pods(self._name)
        events = [*self._cluster.events(self._name), *self._cluster.events(f"{self._name}-launcher")]
        for reason in waiting_for(pods, events):
            self._say(reason)
        missing = next((reason for pod in pods if (reason := image_refused(pod))), "")
        if not missing:
            self._image_missing_since = None
            return
        self._image_missing_since = self._image_missing_since or time.monotonic()
        if time.monotonic() - self._image_missing_since >= self._pace.image:
            raise _GivenUp(f"its image cannot be had ({missing}); correct image in the job settings")

    def _check_deadline(self) -> None:
        if time.monotonic() > self._deadline:
            raise _GivenUp(f"not done after the deadline of {self._parameters.deadline} s; raise deadline")

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def _failure(self, job: Json) -> str:
        """Why the job failed, after the last words of the pod that explains it."""
        pods = self._cluster.pods(self._name)
        if (pod := failed_pod(pods)) is not None and exit_of(pod):
            try:
                for line in self._cluster.log(pod["metadata"]["name"], follow=False, tail=_TAIL_LINES):
                    self._tell(f"{pod['metadata']['name']}: {line.partition(' ')[2]}")
            except (Refused, Expired):
                pass  # an evicted pod has no log any more
        reason = why_failed(job, pods) or "no reason was given"
        look = f"kubectl -n {self._cluster.namespace} describe mpijob {self._name}"
        return f"MPIJob {self._name} failed: {reason}; look at it with {look}"

    def _explained(self, refused: Refused) -> str:
        if refused.status == 403:
            return (
                f"the service account may not do this in namespace {self._cluster.namespace} ({refused.message}); "
                "apply the role of manifests/base"
            )
        return f"MPIJob {self._name} was refused ({refused}); correct the parameters or the job settings"


class _GivenUp(Exception):
    """The job is to be deleted."""


class _GivenUpOnForeign(KfrecError):
    """A job that is not this step's stands in the way; it stays."""


def in_cluster(parameters: LaunchParameters) -> MpiJobLauncher:
    """The launcher of a train step: in the cluster of its pod, or else of the kubeconfig.

    Raises:
        KfrecError: there is no cluster, or the file job_settings is wrong.
    """
    settings = load_settings_file(Path(parameters.job_settings), JobSettings)
    name, uid = os.environ.get("POD_NAME", ""), os.environ.get("POD_UID", "")
    return MpiJobLauncher(
        connect(settings.namespace, tell=tqdm.write),
        job_name(parameters.run_id, parameters.model_uri),
        parameters,
        settings,
        Owner(name, uid) if name and uid else None,
    )
