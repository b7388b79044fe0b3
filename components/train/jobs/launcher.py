"""Training in a job: creates or adopts it, follows it to its end, and reports why it failed.

Neither the operator nor Argo recovers from the loss of a worker; this module does. It deletes the job and creates the
next one, whose workers resume from the newest checkpoint. Invalid input ends the step at once.

No job is started twice or orphaned, even if this process dies: names depend only on the run, an existing job of that
name is adopted, and the step deletes its job before it ends. If the process cannot (its machine is gone), the owner
reference to the run's Workflow and the job's deadline remove the job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from components.cluster.api import Cluster, Refused
from components.cluster.pods import Owner, diagnosed, exit_of
from components.errors import KfrecError, Unreachable
from components.lifetime import stopping_in_order
from components.steps.catalog import LaunchParameters
from components.train.jobs.attempts import Attempts
from components.train.jobs.follow import LogFollower
from components.train.jobs.kind import BAD_INPUT, JobKind, condition, outcome
from components.train.jobs.watcher import Clock, GivenUp, Gone, JobWatcher, Lost, Pace
from components.train.launching.launch import TrainingFailed
from components.train.launching.relay import Measured, Relay, ignored, is_event

Json = dict[str, Any]
_TAIL_LINES = 25
# Where the kernel kills the rank alone, the container goes on and Kubernetes says nothing of memory.
_OUT_OF_MEMORY = "probably because its memory did not suffice: raise pod_memory, or lower global_batch_size"


class _NotStarted(str):
    """The reason of a failure before the training: the nodes or images of the workers came too late."""


class JobLauncher:
    """See ``components.train.launching.launch.Launcher``.

    Args:
        training: name of the training; see ``components.train.jobs.attempts.training_name``.
        namespace: that the job settings name, if any, for messages.
        queue: LocalQueue that admits the jobs, if any.
        owner: for the owner references of adopted jobs, if any.
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: JobKind,
        training: str,
        body: Callable[[int, Sequence[str]], Json],
        parameters: LaunchParameters,
        namespace: str,
        queue: str,
        owner: Owner | None,
        pace: Pace,
        echo: Callable[[str], None],
    ) -> None:
        self._cluster, self._kind, self._training, self._body = cluster, kind, training, body
        self._parameters, self._namespace, self._queue = parameters, namespace, queue
        self._owner, self._pace, self._echo = owner, pace, echo
        self._reported: set[str] = set()

    def run(self, workers: int, arguments: Sequence[str], log: Path, measured: Measured = ignored) -> None:
        """See ``components.train.launching.launch.Launcher``; failures are reported in one line.

        Raises:
            TrainingFailed: a worker's message about invalid input, or the cause of a permanent failure.
            KfrecError: why the job could not run; a retry may succeed.
        """

        def body(attempt: int) -> Json:
            return self._body(attempt, arguments)

        body(1)  # report invalid parameters before any request
        attempts = Attempts(
            self._cluster, self._kind, self._training, body, self._owner, self._pace, self._echo, self._echo_once
        )
        with log.open("w") as file, Relay(file, measured, tagged=True) as relay, stopping_in_order():
            try:
                self._train(attempts, relay)
            except BaseException as error:
                # First: a step that is asked to stop has about a second.
                if attempts.current:
                    self._cluster.delete_at_the_end(attempts.current, self._pace.parting)
                if isinstance(error, Refused):
                    raise KfrecError(self._explained(error)) from None
                raise

    def _train(self, attempts: Attempts, relay: Relay) -> None:
        """Starts jobs until one succeeds."""
        clock, failures = Clock(), 0
        attempts.delete_expired()
        while (failure := self._attempt(attempts, relay, clock)) is not None:
            failed = f"{self._kind.name} {attempts.current} failed: {failure}"
            attempts.end()
            if isinstance(failure, _NotStarted):
                self._echo(f"{failed}; its workers did not start in time, which costs no restart")
                continue
            failures += 1
            unreachable = isinstance(relay.error, Unreachable)
            if relay.error is not None and not unreachable:
                raise TrainingFailed(str(relay.error))
            if failures > self._parameters.restarts:
                count = f"; {failures} jobs have failed, raise restarts for more" if failures > 1 else ""
                raise Unreachable(failed + count) if unreachable else TrainingFailed(failed + count)
            if clock.seconds >= self._parameters.deadline:
                raise TrainingFailed(
                    f"{failed}; nothing is left of the deadline of {self._parameters.deadline} s; raise deadline"
                )
            self._echo(
                f"{failed}; restart {failures} of {self._parameters.restarts} resumes from the newest checkpoint"
            )

    def _attempt(self, attempts: Attempts, relay: Relay, clock: Clock) -> str | None:
        """Follows one job to its end; returns the reason of a retriable failure, a _NotStarted among them, or None.

        Raises:
            TrainingFailed: another job would fail too, or another client deleted this one.
            KfrecError: its image cannot be pulled.
        """
        relay.reset()
        job = attempts.begin()
        name, title = attempts.current, f"{self._kind.name} {attempts.current}"
        watcher = JobWatcher(
            self._cluster, self._kind, name, self._parameters.deadline, clock, self._queue, self._pace, self._echo_once
        )
        try:
            with LogFollower(self._cluster, self._kind, name, relay, min(2.0, self._pace.look)):
                job = watcher.wait(job)
        except Lost as lost:
            return str(lost)
        except GivenUp as given_up:
            kind = TrainingFailed if given_up.for_good else KfrecError
            raise kind(f"{title}: {given_up}; the job was deleted") from None
        except Gone:
            attempts.current = ""
            if attempts.other():
                return self._attempt(attempts, relay, clock)
            raise TrainingFailed(f"{title} was deleted by someone else; start a new run to train again") from None
        if outcome(job) == "Succeeded":
            attempts.current = ""
            return None
        return self._failure(job, name, relay, watcher.ran)

    def _failure(self, job: Json, name: str, relay: Relay, ran: bool) -> str:
        """Why the job failed; relays the last lines of the responsible pod first.

        Args:
            ran: whether all of its pods have run.

        Raises:
            TrainingFailed: another job would fail too.
        """
        pods = diagnosed("the pods", lambda: self._cluster.pods(name), self._echo_once) or []
        reason = self._kind.why_failed(job, pods) or "no reason was given"
        if relay.error is not None:
            return str(relay.error)
        if cause := relay.crash or relay.ended:
            hint = f", {_OUT_OF_MEMORY}" if relay.was_killed and not relay.crash else ""
            reason = f"{cause}{hint}; {reason}"
        if (pod := self._kind.failed_pod(pods)) is not None and exit_of(pod):
            # An evicted pod has no log.
            diagnosed("the log", lambda: self._print_tail(pod["metadata"]["name"]), self._echo_once)
        failed = f"{self._kind.name} {name} failed: {reason}"
        if (condition(job, "Failed") or {}).get("reason") == "DeadlineExceeded":
            raise TrainingFailed(f"{failed}; raise deadline")
        if self._kind.exited(pods, BAD_INPUT):
            raise TrainingFailed(f"{failed}; a worker received invalid input, see its last lines")
        return _NotStarted(reason) if self._kind.exited(pods, self._kind.unreached) and not ran else reason

    def _print_tail(self, pod: str) -> None:
        for line in self._cluster.log(pod, follow=False, tail=_TAIL_LINES):
            text = line.partition(" ")[2]
            if not is_event(text):
                self._echo(f"{pod}: {text}")

    def _echo_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            self._echo(text)

    def _explained(self, refused: Refused) -> str:
        name = self._kind.name
        if self._namespace and refused.status in (403, 404):
            return (
                f"job settings: namespace: no {name} can be created in {self._namespace} ({refused.message}); "
                "correct it, or apply the accounts and the role of manifests/base there"
            )
        if refused.status == 403:
            return (
                f"the service account may not do this in namespace {self._cluster.namespace} ({refused.message}); "
                "apply the role of manifests/base"
            )
        return f"an {name} of {self._training} was refused ({refused}); correct the parameters or the job settings"
