"""Watches one job from its creation to its end: reports why it is pending, and detects lost workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from components.cluster.api import Cluster, Expired
from components.cluster.pods import diagnosed, image_refused, waiting_for
from components.train.jobs.kind import JobKind, condition, outcome

Json = dict[str, Any]


@dataclass(frozen=True)
class Pace:
    """Polling intervals and timeouts.

    Attributes:
        look: polling interval for the pods, in seconds; a watch reports the end of the job at once.
        image: seconds that an image pull may fail.
        grace: seconds for the operator to end a job at its deadline, before this process deletes it.
        quota: seconds between two tries to create a job that is over quota.
        ending: seconds to wait for the end of a deleted job's pods, before the next job.
        parting: seconds to wait for an unavailable API server when the step ends and deletes its job.
    """

    look: int = 10
    image: float = 300.0
    grace: float = 60.0
    quota: float = 30.0
    ending: float = 120.0
    parting: float = 60.0


class Lost(Exception):
    """The job can no longer succeed; a new job may."""


class GivenUp(Exception):
    """The job must be deleted, and a new job would fail too.

    Attributes:
        for_good: whether a retry of the step would also fail.
    """

    def __init__(self, reason: str, for_good: bool) -> None:
        super().__init__(reason)
        self.for_good = for_good


class Gone(Exception):
    """Another client deleted the job."""


class Clock:
    """Measures how long the workers of a training have run, over all its jobs.

    Like the operator's activeDeadlineSeconds, it excludes suspension in a queue and the time before the launcher runs,
    which waits until the workers have nodes and images.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None

    def see(self, running: bool) -> None:
        """Records whether the workers are running now."""
        now = time.monotonic()
        if self._since is not None:
            self.seconds += now - self._since
        self._since = now if running else None


class JobWatcher:
    """Follows one job.

    Args:
        deadline: longest running time of the workers, in seconds.
        queue: LocalQueue that admits the job, if any.
        echo: called with a line for the user; lines may repeat.

    Attributes:
        ran: whether the launcher and all workers have run at the same time.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: JobKind,
        name: str,
        deadline: int,
        clock: Clock,
        queue: str,
        pace: Pace,
        echo: Callable[[str], None],
    ) -> None:
        self._cluster, self._kind, self._name, self._queue = cluster, kind, name, queue
        self._deadline, self._clock, self._pace, self._echo = deadline, clock, pace, echo
        self._image_missing_since: float | None = None
        self._workers: dict[str, str] = {}
        self.ran = False

    def wait(self, job: Json) -> Json:
        """Waits until the job is done.

        Args:
            job: as created or adopted.

        Returns:
            The finished job.

        Raises:
            Lost: a worker is gone.
            GivenUp: the deadline has passed, or the image cannot be pulled.
            Gone: another client deleted it.
        """
        try:
            while outcome(job) is None:
                self._check(job)
                job = self._next(job)
                if outcome(job) is None and (reason := self._look(job)):
                    job = self._job()  # a finished job loses its workers too
                    self._check(job)
                    if outcome(job) is None and not self._kind.is_suspended(job):
                        raise Lost(reason)
            return job
        finally:
            self._clock.see(running=False)

    def _next(self, job: Json) -> Json:
        """The job after a polling interval, or as soon as it is done."""
        version = job["metadata"]["resourceVersion"]
        try:
            for kind, changed in self._cluster.changes(self._name, version, self._pace.look):
                if kind == "DELETED":
                    raise Gone
                self._check(changed)
                if outcome(changed) is not None:
                    return changed
        except Expired:
            time.sleep(min(1.0, self._pace.look))
        return self._job()

    def _job(self) -> Json:
        job = self._cluster.get(self._name)
        if job is None:
            raise Gone
        return job

    def _check(self, job: Json) -> None:
        """Updates the clock; raises if the job was deleted or its deadline has passed."""
        if job["metadata"].get("deletionTimestamp"):
            raise Gone
        if self._kind.is_suspended(job):
            self._workers = {}  # the operator deletes them, and the job may be resumed before the next poll
        running = condition(job, "Running") is not None and not self._kind.is_suspended(job)
        self.ran = self.ran or running
        self._clock.see(running)
        if self._clock.seconds > self._deadline + self._pace.grace:
            raise GivenUp(f"not done after the deadline of {self._deadline} s; raise deadline", for_good=True)

    def _look(self, job: Json) -> str:
        """Reports why the job is pending.

        A missing permission is reported and its check skipped; the job is still followed.

        Returns:
            The loss of a worker, or an empty string.
        """
        if self._kind.is_suspended(job):
            queue = f", waiting in queue {self._queue}" if self._queue else ""
            self._echo(f"{self._kind.name} {self._name} is suspended{queue}")
            return ""
        pods = diagnosed("the pods", lambda: self._cluster.pods(self._name), self._echo) or []
        if pods:
            if reason := self._kind.lost_worker(pods, self._workers):
                return reason
            self._workers |= self._kind.running_workers(pods)
        events = diagnosed("the events", self._events, self._echo) or []
        for reason in waiting_for(pods, events):
            self._echo(reason)
        missing = next((reason for pod in pods if (reason := image_refused(pod))), "")
        if not missing:
            self._image_missing_since = None
            return ""
        self._image_missing_since = self._image_missing_since or time.monotonic()
        if time.monotonic() - self._image_missing_since >= self._pace.image:
            raise GivenUp(f"its image cannot be had ({missing}); correct image in the job settings", for_good=False)
        return ""

    def _events(self) -> list[Json]:
        return [*self._cluster.events(self._name), *self._cluster.events(f"{self._name}-{self._kind.launcher}")]
