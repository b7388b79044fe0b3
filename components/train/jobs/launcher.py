"""Training in a job: creates or adopts it, follows it to its end, and reports why it failed.

Neither the operator nor Argo recovers from the loss of a worker; this module does. It deletes the job and creates the
next one, whose workers resume from the newest checkpoint. Invalid input ends the step at once.

No job is started twice or orphaned, even if this process dies: names depend only on the run, an existing job of that
name is adopted, and the step deletes its job before it ends. If the process cannot (its machine is gone), the owner
reference to the run's Workflow and the job's deadline remove the job. The launcher's log is followed line by line
across dropped connections and restarted launchers.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.cluster.api import Cluster, Expired, Refused
from components.cluster.pods import Owner, diagnosed, exit_of
from components.errors import KfrecError, Unreachable
from components.lifetime import stopping_in_order
from components.steps.catalog import LaunchParameters
from components.train.jobs.attempts import Attempts
from components.train.jobs.kind import BAD_INPUT, JobKind, condition, outcome
from components.train.jobs.watcher import Clock, GivenUp, Gone, JobWatcher, Lost, Pace
from components.train.launching.launch import TrainingFailed
from components.train.launching.relay import Measured, Relay, ignored, is_event

Json = dict[str, Any]
_TAIL_LINES = 25
# Where the kernel kills the rank alone, the container goes on and Kubernetes says nothing of memory.
_OUT_OF_MEMORY = "probably because its memory did not suffice: raise pod_memory, or lower global_batch_size"
# Attempts to read the log of a finished job.
_LAST_TRIES = 5


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


class LogFollower:
    """Relays the log lines of a job's launchers exactly once, from a background thread.

    Args:
        relay: receives the lines; its error is cleared when another launcher starts.
        pause: polling interval for a launcher, in seconds.
    """

    def __init__(self, cluster: Cluster, kind: JobKind, job: str, relay: Relay, pause: float) -> None:
        self._cluster, self._kind, self._job, self._relay, self._pause = cluster, kind, job, relay, pause
        self._ended = threading.Event()
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="launcher log", daemon=True)

    def __enter__(self) -> LogFollower:
        self._thread.start()
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        """Reads the rest of the log, or stops at once if an error ends the step."""
        if kind is not None:
            self._left.set()  # lines of an abandoned job must not mix with the next one's
        self._ended.set()
        self._thread.join(30.0 if kind is None else 0.0)

    def _follow(self) -> None:
        done: set[str] = set()
        while True:
            last_round = self._ended.is_set()
            for name in self._started_launchers():
                if name not in done:
                    self._read(name)
                    done.add(name)
            if last_round:
                return
            self._ended.wait(self._pause)

    def _started_launchers(self) -> list[str]:
        try:
            pods = self._cluster.pods(self._job)
        except (Refused, KfrecError):
            return []  # the job watcher reports API errors
        return [
            pod["metadata"]["name"]
            for pod in self._kind.launchers(pods)
            if pod.get("status", {}).get("phase") in ("Running", "Succeeded", "Failed")
        ]

    def _read(self, pod: str) -> None:
        """Reads one launcher's log to its end."""
        self._relay.reset()
        last, since, repeated, tries = "", None, 0, _LAST_TRIES
        while True:
            skip = repeated
            try:
                for text in self._cluster.log(pod, follow=True, since_seconds=since):
                    stamp, _, line = text.partition(" ")
                    # After a drop the log is requested from a full second earlier: duplicates are skipped.
                    if stamp < last:
                        continue
                    if stamp == last and skip:
                        skip -= 1
                        continue
                    repeated = repeated + 1 if stamp == last else 1
                    last = stamp
                    if self._left.is_set():
                        return
                    self._relay.line(0, "stdout", line)
                return
            except Expired:
                since = _seconds_since(last)
                if self._ended.is_set():
                    # The log of a finished job is available for a limited time.
                    tries -= 1
                    if not tries:
                        return
                    time.sleep(self._pause)
                else:
                    self._ended.wait(self._pause)
            except Refused:
                return


def _seconds_since(stamp: str) -> int | None:
    """Whole seconds since an RFC 3339 timestamp, plus a margin; None for an empty one."""
    if not stamp:
        return None
    seconds = datetime.fromisoformat(stamp[:19]).replace(tzinfo=UTC).timestamp()
    return max(1, math.ceil(time.time() - seconds) + 2)
